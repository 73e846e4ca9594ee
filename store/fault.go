package store

import (
	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/bot/fault"
)

// The write points of transactions that serve more than one step.

func applyPoint(a bot.Application) fault.Write {
	if a.Admit {
		return fault.Admission
	}
	return fault.Application
}

func movePoint(m bot.Move) fault.Write {
	switch {
	case m.From == bot.OperationBatched:
		return fault.Evict
	case m.To == bot.OperationWaiting:
		return fault.Admission
	}
	return ""
}

func changePoint(c bot.BatchChange) fault.Write {
	switch {
	case c.Phase == bot.PhaseLanding:
		return fault.Landing
	case c.Code.Fails():
		return fault.Verdict
	case c.MRNumber != 0:
		return fault.Opened
	}
	return ""
}

func settlePoint(s bot.Settlement) fault.Write {
	if s.Status == bot.BatchSucceeded {
		return fault.Done
	}
	return fault.Release
}
