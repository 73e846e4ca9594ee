package githost

import "time"

// Meter counts what goes to a host. Its methods are called by several goroutines and must not block.
type Meter interface {
	// Requested counts one request: op is its method and resource, such as "GET pulls", code the answer's status, 0 when there was none.
	Requested(host, op string, code int)
	// Remains says how many requests a credential has left until its limit starts anew, as the host said last.
	Remains(host, credential string, requests int)
	// Paused counts one pause that the host asked for.
	Paused(host string, pause time.Duration)
	// HeldBack says from how many repositories calls are held back; the host as a whole counts as one.
	HeldBack(host string, repositories int)
}

type noMeter struct{}

func (noMeter) Requested(string, string, int) {}
func (noMeter) Remains(string, string, int)   {}
func (noMeter) Paused(string, time.Duration)  {}
func (noMeter) HeldBack(string, int)          {}
