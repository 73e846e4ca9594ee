package plan

import (
	"fmt"
	"math"
	"strings"

	"github.com/batchbot/batchbot/bot"
)

// String says for people what is tested and why. It begins with a lower-case letter and has no final stop.
func (c Choice) String() string {
	n := min(c.Limit, c.Of)
	switch {
	case !c.Claim && c.Wait > 0:
		return fmt.Sprintf("waiting %s for company", c.Wait)
	case !c.Claim:
		return "nothing waits"
	case c.Cohort == 0:
		s := fmt.Sprintf("testing the first %d of %d that wait", n, c.Of)
		if n == c.Of {
			s = fmt.Sprintf("testing all %d that wait", n)
		}
		if n == 1 && c.Of == 1 {
			s = "testing the one that waits"
		}
		return s + c.aside() + fmt.Sprintf("; %s of changes break CI here", percent(c.Rates.Culprit))
	}
	switch {
	case c.Kind == bot.BatchCurated:
		s := fmt.Sprintf("testing the %d members of %s together", n, root(c.Cohort))
		if c.Again {
			s += " once more: CI may have failed for nothing"
		}
		return s + c.aside()
	case c.Of == 1 && c.Again:
		return fmt.Sprintf("testing the last suspect of batch %d alone once more: CI may have failed for nothing", c.Cohort)
	case c.Of == 1:
		return fmt.Sprintf("testing the last suspect of batch %d alone", c.Cohort)
	case c.Again:
		return fmt.Sprintf("testing all %d suspects of batch %d once more: CI may have failed for nothing", n, c.Cohort)
	}
	return fmt.Sprintf("testing %d of %d suspects of batch %d; %s expected", n, c.Of, c.Cohort, more(c.Runs()))
}

// aside names the search that a batch interrupts.
func (c Choice) aside() string {
	if c.Aside == 0 {
		return ""
	}
	return fmt.Sprintf(" while batch %d is searched", c.Aside)
}

// String says for people what a red batch means. It begins with a lower-case letter and has no final stop.
func (r Red) String() string {
	switch {
	case len(r.Broken) > 0:
		return fmt.Sprintf("batches with no member in common failed CI in a row (%s) and none passed in between: a runner or the target itself is broken, not the members. "+
			"Mend it, then resume the queue; who failed alone since %s may be innocent: /batch retry", list(r.Broken), root(r.Broken[0]))
	case r.Kind == bot.BatchCurated && r.Fail:
		return fmt.Sprintf("its %d members fail together", r.Tested)
	case r.Kind == bot.BatchCurated:
		return fmt.Sprintf("its %d members are tested once more: CI may have failed for nothing", r.Tested)
	case r.Fail:
		return fmt.Sprintf("it was red alone and is the cause with a probability of %s", percent(r.Guilty))
	case r.Tested == 1:
		return fmt.Sprintf("it was red alone, which may be a flake: the cause with a probability of %s, it is tested once more", percent(r.Guilty))
	}
	return fmt.Sprintf("its %d members are suspects", r.Tested)
}

// root names a search by the batch it began with, or a curated batch by its own number.
func root(id int64) string {
	if id < 0 {
		return fmt.Sprintf("curated batch %d", bot.CuratedCohort(id))
	}
	return fmt.Sprintf("batch %d", id)
}

func list(ids []int64) string {
	var s []string
	for _, id := range ids {
		if id < 0 {
			s = append(s, root(id))
			continue
		}
		s = append(s, fmt.Sprint(id))
	}
	if len(s) < 2 {
		return strings.Join(s, "")
	}
	return strings.Join(s[:len(s)-1], ", ") + " and " + s[len(s)-1]
}

// more says how many more runs are expected.
func more(runs float64) string {
	n := max(1, int(math.Round(runs)))
	if n == 1 {
		return "1 more run"
	}
	return fmt.Sprintf("%d more runs", n)
}

// percent rounds a probability so that 1 is never said of what is not sure.
func percent(p float64) string {
	switch {
	case p > 0.999 && p < 1:
		return "over 99.9 %"
	case p >= 0.1:
		return fmt.Sprintf("%.0f %%", min(100*p, 99.9))
	}
	return fmt.Sprintf("%.1f %%", 100*p)
}
