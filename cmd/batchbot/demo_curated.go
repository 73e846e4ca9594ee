package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/batchbot/batchbot/bot"
)

// curatedChanges become the merge requests of the curated batch: no one of them makes sense without the others.
var curatedChanges = []demoChange{
	{author: "eve", title: "Make a library of the address form", files: map[string]string{"lib/address.txt": "fields: street, town\n"}},
	{author: "gwen", title: "Use the library in the checkout", files: map[string]string{"shop/checkout-address.txt": "use: lib/address\n"}},
	{author: "hal", title: "Use the library in the account", files: map[string]string{"shop/account-address.txt": "use: lib/address\n"}},
}

// landCurated plays a curated batch: three that land together or not at all, submitted twice at the same moment.
func (d *demo) landCurated(ctx context.Context) (err error) {
	d.tell.chapter("A curated batch: three that land together or not at all")
	if d.set, err = d.openScene(curatedChanges, "ivy"); err != nil {
		return err
	}
	others := make([]string, 0, len(d.set))
	for _, number := range d.set[1:] {
		others = append(others, fmt.Sprintf("#%d", number))
	}
	if err := d.comment(d.set[0], curatedChanges[0].author, "/batch with "+strings.Join(others, " ")); err != nil {
		return err
	}
	var id int64
	if err := d.until(ctx, "the draft", func(n snapshot) bool {
		for _, s := range n.sets {
			if id = s.ID; s.Status == bot.CuratedDraft && slices.Equal(s.Numbers, d.set) {
				return true
			}
		}
		return false
	}); err != nil {
		return err
	}
	path := fmt.Sprintf("/api/v1/curated/%d/submit", id)
	d.tell.step("somebody presses the button twice: POST %s, two at once", path)
	var twice sync.WaitGroup
	d.submissions = make([]reportSubmission, 2)
	failures := make([]error, len(d.submissions))
	for i := range d.submissions {
		twice.Go(func() {
			var problem string
			d.submissions[i].Status, problem, failures[i] = d.call(ctx, http.MethodPost, path, nil)
			d.submissions[i].Type = problem
		})
	}
	twice.Wait()
	for i, err := range failures {
		if err != nil {
			return fmt.Errorf("submitting curated batch %d: %w", id, err)
		}
		d.tell.step("   answered %s", d.submissions[i])
	}
	slices.SortFunc(d.submissions, func(a, b reportSubmission) int { return a.Status - b.Status })
	if err := d.comment(d.set[0], "jan", "/batch approve"); err != nil {
		return err
	}
	return d.until(ctx, "all three to land", func(n snapshot) bool {
		for _, number := range d.set {
			if n.status(number) != bot.OperationMerged || n.state(number) != "merged" {
				return false
			}
		}
		return n.quiet()
	})
}

// call makes one call of the bot's REST API and returns its status and, of a refusal, the type of problem.
func (d *demo) call(ctx context.Context, method, path string, body any) (status int, problem string, err error) {
	var text []byte
	if body != nil {
		if text, err = json.Marshal(body); err != nil {
			return 0, "", err
		}
	}
	request, err := http.NewRequestWithContext(ctx, method, d.bot.address()+path, bytes.NewReader(text))
	if err != nil {
		return 0, "", err
	}
	request.Header.Set("Authorization", "Bearer "+d.settings.API.Tokens[0].Token.Reveal())
	request.Header.Set("Content-Type", "application/json")
	response, err := (&http.Client{Timeout: time.Minute}).Do(request)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil {
		return 0, "", err
	}
	if response.StatusCode >= http.StatusBadRequest {
		var refusal struct {
			Type string `json:"type"`
		}
		if err := json.Unmarshal(answer, &refusal); err != nil {
			return 0, "", fmt.Errorf("%s %s was answered %d and not with a problem: %w", method, path, response.StatusCode, err)
		}
		problem = refusal.Type
	}
	return response.StatusCode, problem, nil
}

// orRefused is err, or what an answer refused.
func orRefused(err error, status int, problem string) error {
	if err != nil {
		return err
	}
	return fmt.Errorf("answered %d %s", status, problem)
}

// reportCurated is what became of the curated batch.
type reportCurated struct {
	Members     []int              `json:"members"`
	Submissions []reportSubmission `json:"submissions"` // made at the same moment
	Status      string             `json:"status"`
	Batch       int64              `json:"batch"` // the one it rode in, alone
	Landed      []int              `json:"landed"`
}

type reportSubmission struct {
	Status int    `json:"status"`         // of HTTP
	Type   string `json:"type,omitempty"` // of problem
}

// String is the answer in words.
func (s reportSubmission) String() string {
	return strings.TrimSpace(fmt.Sprintf("%d %s", s.Status, s.Type))
}

func curatedReport(n snapshot, submissions []reportSubmission) reportCurated {
	r := reportCurated{Members: []int{}, Submissions: submissions, Landed: []int{}}
	for _, s := range n.sets {
		r.Members, r.Status = s.Numbers, s.Status.String()
	}
	for _, b := range n.batches {
		if b.Kind == bot.BatchCurated {
			r.Batch, r.Landed = b.ID, b.tested()
		}
	}
	return r
}

// told is the outcome in a sentence.
func (r reportCurated) told() string {
	answers := make([]string, 0, len(r.Submissions))
	for _, s := range r.Submissions {
		answers = append(answers, s.String())
	}
	return fmt.Sprintf("Curated batch of %s: submitted twice at once (%s), landed %s in batch %d.", list(r.Members), strings.Join(answers, "; "), list(r.Landed), r.Batch)
}
