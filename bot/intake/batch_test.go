package intake

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/batchbot/batchbot/bot"
)

// isBatch makes a merge request the MR of batch 7.
func (w *world) isBatch(number int, status bot.BatchStatus, state bot.MRState) {
	w.rows.batchMRs[number] = bot.Batch{ID: 7, QueueID: 3, Status: status, MRNumber: number}
	w.host.mrs[number] = bot.MRSnapshot{Number: number, State: state, HeadSHA: first, Target: "main", SourceBranch: "batchbot/7-0a1b2c3d/main", UpdatedAt: noon}
}

func TestTheMRofABatchThatIsOverIsLookedAtAgain(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status bot.BatchStatus
		state  bot.MRState
		again  bool
	}{
		"under way":                   {bot.BatchRunning, bot.MROpen, false},
		"blocked":                     {bot.BatchBlocked, bot.MROpen, false},
		"failed and closed":           {bot.BatchFailed, bot.MRClosed, false},
		"landed":                      {bot.BatchSucceeded, bot.MRMerged, false},
		"failed and reopened":         {bot.BatchFailed, bot.MROpen, true},
		"failed and merged after all": {bot.BatchFailed, bot.MRMerged, true},
		"landed by a push, reopened":  {bot.BatchSucceeded, bot.MROpen, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.isBatch(40, c.status, c.state)
			w.changed(40)
			if got := len(w.rows.revisited) == 1; got != c.again {
				t.Errorf("looked at again: %t, want %t", got, c.again)
			}
			if !slices.Contains(w.nudged, 3) {
				t.Error("its queue is not woken")
			}
		})
	}
}

func TestALookFindsAReopenedBatch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.isBatch(40, bot.BatchFailed, bot.MROpen)
	w.looks()
	if !slices.Equal(w.rows.revisited, []int64{7}) {
		t.Errorf("looked at again: %v", w.rows.revisited)
	}
}

// rules lets an operator's word be answered, and records it.
func (w *world) rules(answer bot.OperatorAnswer, err error) *[]bot.OperatorOrder {
	var orders []bot.OperatorOrder
	w.applier.Order = func(_ context.Context, o bot.OperatorOrder) (bot.OperatorAnswer, error) {
		orders = append(orders, o)
		return answer, err
	}
	w.host.permissions["olga"] = bot.PermissionMaintain
	return &orders
}

var olga = bot.Actor{ID: 9, Login: "olga"} // maintains the repository

func TestUnblockIsAWordAboutTheBatch(t *testing.T) {
	t.Parallel()
	t.Run("on the batch MR", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		orders := w.rules(bot.OperatorAnswer{Done: true, Text: "batch 7 goes on"}, nil)
		w.isBatch(40, bot.BatchBlocked, bot.MROpen)
		w.says(olga, 40, "/batch unblock Resume")
		w.replies("Batch 7 goes on.")
		want := bot.OperatorOrder{BatchID: 7, Word: bot.WordResume, Unblock: true, By: "olga", Source: "delivery-1"}
		if len(*orders) != 1 || (*orders)[0] != want {
			t.Errorf("orders %+v, want %+v", *orders, want)
		}
		if !slices.Contains(w.nudged, 3) {
			t.Error("its queue is not woken")
		}
	})
	t.Run("on a member", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		orders := w.rules(bot.OperatorAnswer{Text: "its MR 40 reads open: close it first"}, nil)
		w.opens(1)
		w.approves(1, first)
		w.says(ada, 1, "/batch")
		w.rides(1, bot.PhaseOpened)
		w.rows.answers = nil
		w.says(olga, 1, "/batch unblock failed")
		w.replies("Its MR 40 reads open: close it first.")
		if len(*orders) != 1 || (*orders)[0].BatchID != 7 || (*orders)[0].Word != bot.WordFailed {
			t.Errorf("orders %+v", *orders)
		}
	})
	t.Run("not by everybody", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		orders := w.rules(bot.OperatorAnswer{Done: true}, nil)
		w.isBatch(40, bot.BatchBlocked, bot.MROpen)
		w.says(grace, 40, "/batch unblock merged")
		w.replies("only people who maintain this repository")
		if len(*orders) != 0 {
			t.Errorf("orders %+v", *orders)
		}
	})
	t.Run("wants a word", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		orders := w.rules(bot.OperatorAnswer{Done: true}, nil)
		w.isBatch(40, bot.BatchBlocked, bot.MROpen)
		for _, body := range []string{"/batch unblock", "/batch unblock now", "/batch unblock merged failed"} {
			w.says(olga, 40, body)
			w.replies("Say what became of the batch")
		}
		if len(*orders) != 0 {
			t.Errorf("orders %+v", *orders)
		}
	})
	t.Run("on something else", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.rules(bot.OperatorAnswer{Done: true}, nil)
		w.opens(1)
		w.says(olga, 1, "/batch unblock merged")
		w.replies("is no batch and rides in none")
	})
	t.Run("comes back while the host cannot be asked", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.rules(bot.OperatorAnswer{}, errDown)
		w.isBatch(40, bot.BatchBlocked, bot.MROpen)
		if err := w.hears(w.wrote(olga, 40, "/batch unblock merged")); !errors.Is(err, errDown) {
			t.Errorf("it ends with %v", err)
		}
		w.replies()
	})
}

// Each step of an unblock fails once, before and after it took effect, and each happens twice: one answer comes of it.
func TestAnUnblockFailsAtEachStep(t *testing.T) {
	t.Parallel()
	for _, after := range []bool{false, true} {
		for at := 1; ; at++ {
			w := newWorld(t)
			blocked := true
			w.host.permissions["olga"] = bot.PermissionMaintain
			w.applier.Order = func(context.Context, bot.OperatorOrder) (answer bot.OperatorAnswer, err error) {
				err = w.steps.do("Order", func() error {
					answer = bot.OperatorAnswer{Done: blocked, Text: "batch 7 goes on"}
					blocked = false
					return nil
				})
				return answer, err
			}
			w.isBatch(40, bot.BatchBlocked, bot.MROpen)
			c := w.wrote(olga, 40, "/batch unblock resume")
			*w.steps = steps{failAt: at, after: after}
			err := w.hears(c)
			if len(w.steps.calls) < at {
				if at < 5 {
					t.Errorf("only %d steps were seen", at-1)
				}
				break
			}
			if err == nil && !after {
				t.Errorf("step %d (%s) failed and nobody noticed", at, w.steps.calls[at-1])
			}
			for range 2 {
				if err := w.hears(c); err != nil {
					t.Fatalf("after step %d: %v", at, err)
				}
			}
			if blocked {
				t.Errorf("after step %d the batch is still blocked", at)
			}
			w.replies("Batch 7 goes on.")
		}
	}
}
