package main

import (
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/bot/intake"
	"github.com/batchbot/batchbot/bot/reconcile"
)

// meter counts what this instance asks of the hosts and what it repairs. It implements githost.Meter and prometheus.Collector.
type meter struct {
	requests    *prometheus.CounterVec
	remaining   *prometheus.GaugeVec
	pauses      *prometheus.CounterVec
	held        *prometheus.GaugeVec
	repairs     *prometheus.CounterVec
	differences *prometheus.CounterVec
	jobs        *prometheus.CounterVec
	jobSeconds  *prometheus.HistogramVec
	jobsMissed  *prometheus.CounterVec
}

func newMeter() *meter {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "batchbot_" + name, Help: help}, labels)
	}
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "batchbot_" + name, Help: help}, labels)
	}
	return &meter{
		requests:    counter("host_requests_total", "Requests to a host's API, by what was asked and the HTTP status; code 0 is no answer.", "host", "op", "code"),
		remaining:   gauge("host_ratelimit_remaining", "Requests a credential has left, as the host said last.", "host", "credential"),
		pauses:      counter("host_pauses_total", "Pauses that a host asked for.", "host"),
		held:        gauge("host_held_back", "Repositories about which nothing is asked for a while, because the last calls failed; the host itself counts as one.", "host"),
		repairs:     counter("poll_repairs_total", "What a look at the host found and no webhook had told yet, by what it was.", "host", "kind"),
		differences: counter("reconcile_differences_total", "Differences between rows and host, by what became of them.", "kind", "outcome"),
		jobs:        counter("job_runs_total", "Runs of scheduled jobs on this instance, by how they ended.", "job", "outcome"),
		jobSeconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "batchbot_job_duration_seconds", Help: "How long runs of scheduled jobs on this instance took.", Buckets: []float64{0.01, 0.1, 1, 10, 60, 300, 1800},
		}, []string{"job"}),
		jobsMissed: counter("job_skipped_total", "Ticks of scheduled jobs that were skipped because the job was still running.", "job"),
	}
}

// Requested implements githost.Meter.
func (m *meter) Requested(host, op string, code int) {
	m.requests.WithLabelValues(host, op, strconv.Itoa(code)).Inc()
}

// Remains implements githost.Meter.
func (m *meter) Remains(host, credential string, requests int) {
	m.remaining.WithLabelValues(host, credential).Set(float64(requests))
}

// Paused implements githost.Meter.
func (m *meter) Paused(host string, _ time.Duration) { m.pauses.WithLabelValues(host).Inc() }

// HeldBack implements githost.Meter.
func (m *meter) HeldBack(host string, repositories int) {
	m.held.WithLabelValues(host).Set(float64(repositories))
}

// looked counts what a look repaired.
func (m *meter) looked(repo bot.Repository, look intake.Look) {
	if look.Commands > 0 {
		m.repairs.WithLabelValues(repo.Host, "command").Add(float64(look.Commands))
	}
	for why, n := range look.Moves {
		m.repairs.WithLabelValues(repo.Host, string(why)).Add(float64(n))
	}
}

// reconciled counts what a run found.
func (m *meter) reconciled(found []reconcile.Difference) {
	for _, d := range found {
		m.differences.WithLabelValues(string(d.Kind), string(d.Outcome)).Inc()
	}
}

// jobEnded counts a run of a scheduled job.
func (m *meter) jobEnded(name string, outcome bot.JobOutcome, took time.Duration) {
	m.jobs.WithLabelValues(name, strings.ToLower(outcome.String())).Inc()
	m.jobSeconds.WithLabelValues(name).Observe(took.Seconds())
}

// jobMissed counts a tick that was skipped.
func (m *meter) jobMissed(name string) { m.jobsMissed.WithLabelValues(name).Inc() }

func (m *meter) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.requests, m.remaining, m.pauses, m.held, m.repairs, m.differences, m.jobs, m.jobSeconds, m.jobsMissed}
}

// Describe implements prometheus.Collector.
func (m *meter) Describe(ch chan<- *prometheus.Desc) {
	for _, c := range m.collectors() {
		c.Describe(ch)
	}
}

// Collect implements prometheus.Collector.
func (m *meter) Collect(ch chan<- prometheus.Metric) {
	for _, c := range m.collectors() {
		c.Collect(ch)
	}
}
