package storetest

import (
	"database/sql"
	"fmt"
	"strconv"
	"strings"

	"github.com/batchbot/batchbot/bot"
)

// lookAtSets goes on where look ends, with the tables of curated batches.
const lookAtSets = `
	UNION ALL SELECT 'approval_request', id, status, version, queue_id, merge_request_id, live_mr, CONCAT(drafter, ' ', decider), reason FROM approval_request
	UNION ALL SELECT 'draft_row', CONCAT(approval_request_id, ' ', row_no), 1, version, id, approval_request_id, row_no, number, '' FROM draft_row
	UNION ALL SELECT 'curated_row', CONCAT(approval_request_id, ' ', row_no), 1, version, id, approval_request_id, row_no, number, CONCAT(head_sha, ' ', operation_id) FROM curated_row`

// setRows are the rows of curated batches.
type setRows struct {
	headers   []setRow
	drafts    map[int64]int      // set → draft rows
	committed map[int64][]string // set → the operation of each committed row, in any order; empty before the approval
}

type setRow struct {
	id, queueID int64
	mr, live    int64 // live 0: NULL
	status      bot.CuratedStatus
}

func (s *setRows) add(p *picture, table, key string, f [7]sql.NullString, state string) {
	number := func(text string) int64 {
		n, _ := strconv.ParseInt(text, 10, 64)
		return n
	}
	if table == "approval_request" {
		s.headers = append(s.headers, setRow{id: number(key), queueID: number(f[2].String), mr: number(f[3].String), live: number(f[4].String),
			status: bot.CuratedStatus(number(f[0].String))})
		return
	}
	if s.drafts == nil {
		s.drafts, s.committed = make(map[int64]int), make(map[int64][]string)
	}
	// A row number comes back after its row was deleted; the row's id does not.
	p.states = append(p.states, versioned{fmt.Sprint(table, " with id ", f[2].String), number(f[1].String), state})
	set := number(f[3].String)
	if number(f[4].String) < 1 || number(f[5].String) < 1 {
		p.outside = append(p.outside, fmt.Sprintf("%s of set %d has row_no %s and merge request %s", table, set, f[4].String, f[5].String))
	}
	if table == "draft_row" {
		s.drafts[set]++
		return
	}
	_, operation, _ := strings.Cut(f[6].String, " ")
	s.committed[set] = append(s.committed[set], operation)
}

// cohortOf is the cohort in a batch's column of phase and cohort.
func cohortOf(text string) int64 {
	_, cohort, _ := strings.Cut(text, " ")
	n, _ := strconv.ParseInt(cohort, 10, 64)
	return n
}

// brokenSets names what does not hold of curated batches: the members of an approved one wait together or ride together in a batch of their own, and
// nobody else waits or rides as such.
func (p *picture) brokenSets(operations map[string]operationRow) []string {
	var broken []string
	report := func(format string, args ...any) { broken = append(broken, "curated: "+fmt.Sprintf(format, args...)) }
	requests := make(map[string]requestRow)
	riding := make(map[int64]int) // cohort below 0 → requests
	for _, r := range p.requests {
		requests[r.operationID] = r
		if r.cohort < 0 {
			riding[r.cohort]++
		}
	}
	batches := make(map[int64]batchRow)
	for _, b := range p.batches {
		batches[b.id] = b
	}
	for _, r := range p.requests {
		if rides := r.batchID != 0; rides && (r.cohort < 0 || batches[r.batchID].cohort < 0) && batches[r.batchID].cohort != r.cohort {
			report("operation %s of cohort %d rides in batch %d of cohort %d", r.operationID, r.cohort, r.batchID, batches[r.batchID].cohort)
		}
	}
	lives := make(map[int64]int64)
	for _, s := range p.sets.headers {
		rows, drafts := p.sets.committed[s.id], p.sets.drafts[s.id]
		over := s.status == bot.CuratedDone || s.status == bot.CuratedCancelled
		live := s.mr
		if over {
			live = 0
		}
		if s.live != live {
			report("set %d of merge request row %d is %s and has live_mr %d", s.id, s.mr, s.status, s.live)
		}
		if other, taken := lives[s.live]; taken && s.live != 0 {
			report("sets %d and %d of merge request row %d are not over", other, s.id, s.mr)
		}
		lives[s.live] = s.id
		switch s.status {
		case bot.CuratedPendingApproval, bot.CuratedApproved, bot.CuratedDone:
			if drafts > 0 || len(rows) == 0 {
				report("set %d is %s with %d draft rows and %d committed ones", s.id, s.status, drafts, len(rows))
			}
		}
		cohort := bot.CuratedCohort(s.id)
		if s.status != bot.CuratedApproved {
			if n := riding[cohort]; n > 0 {
				report("set %d is %s and %d of it wait or ride", s.id, s.status, n)
			}
		} else {
			in := make(map[int64]int) // batch, 0 = waiting → members
			for _, id := range rows {
				r, has := requests[id]
				if !has || r.cohort != cohort || r.queueID != s.queueID {
					report("set %d is APPROVED, and its member %q neither waits nor rides as one: %s", s.id, id, operations[id].status)
				}
				in[r.batchID]++
			}
			if len(in) > 1 || riding[cohort] != len(rows) {
				report("set %d has %d members, %d requests, and they are in batches %v", s.id, len(rows), riding[cohort], in)
			}
		}
		if s.status == bot.CuratedDone {
			for _, id := range rows {
				if operations[id].status != bot.OperationMerged {
					report("set %d is DONE, and its member %q is %s", s.id, id, operations[id].status)
				}
			}
		}
		delete(riding, cohort)
	}
	for cohort, n := range riding {
		report("%d requests are of set %d, which does not exist", n, bot.CuratedCohort(cohort))
	}
	return broken
}
