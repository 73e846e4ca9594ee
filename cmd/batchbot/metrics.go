package main

import (
	"context"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/batchbot/batchbot/bot/intake"
	"github.com/batchbot/batchbot/store"
)

// metrics is what /metrics shows. The counts of rows are read when they are asked for: they belong to the database, not to this instance.
type metrics struct {
	registry *prometheus.Registry
	webhooks *prometheus.CounterVec
	api      *prometheus.CounterVec
	sources  map[string]intake.Source // of webhooks, by path
}

func newMetrics(db *store.Store, sources map[string]intake.Source, meter *meter, log *slog.Logger) *metrics {
	m := &metrics{
		sources:  sources,
		registry: prometheus.NewRegistry(),
		webhooks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "batchbot_webhook_requests_total",
			Help: "Webhook requests answered by this instance, by host and HTTP status.",
		}, []string{"host", "status"}),
		api: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "batchbot_api_requests_total",
			Help: "Requests to the REST API answered by this instance, by route and HTTP status. What is no route has none.",
		}, []string{"route", "code"}),
	}
	info := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "batchbot_build_info", Help: "Always 1; the labels say which program this is."}, []string{"version", "commit"})
	v := readVersion()
	info.WithLabelValues(v.Version, v.Commit).Set(1)
	m.registry.MustRegister(m.webhooks, m.api, info, meter, newRows(db, log),
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// countWebhooks counts the answers of next. Only names of hosts that exist become labels: what a stranger asks for must not make rows.
func (m *metrics) countWebhooks(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status := &statusWriter{ResponseWriter: w, status: http.StatusOK}
		next.ServeHTTP(status, r)
		m.webhooks.WithLabelValues(m.sources[r.URL.Path].Name, strconv.Itoa(status.status)).Inc()
	})
}

// statusWriter remembers the status that was answered.
type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap lets http.ResponseController reach the writer below.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// rows is the collector of the counts of rows.
type rows struct {
	db  *store.Store
	log *slog.Logger

	up, waiting, pending, parked, active, batches, deliveries, errands *prometheus.Desc
	retries, stale                                                     *prometheus.Desc
}

func newRows(db *store.Store, log *slog.Logger) *rows {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("batchbot_"+name, help, labels, nil)
	}
	return &rows{
		db: db, log: log,
		up:         desc("database_up", "1 when the database answered this scrape."),
		waiting:    desc("waiting_requests", "Requests in the waiting sets of all queues."),
		pending:    desc("pending_approvals", "Operations that wait for an approval."),
		parked:     desc("parked_queues", "Queues the bot parked because something needs a person."),
		active:     desc("active_batches", "Batches that occupy the slot of their queue.", "status"),
		batches:    desc("batches", "Batches on record.", "status", "code"),
		deliveries: desc("deliveries", "Webhook deliveries that are due or were given up.", "status"),
		errands:    desc("outbox_errands", "Side effects on the host that are due or were given up.", "status"),
		retries:    desc("transaction_retries_total", "Transactions this instance ran again because the database asked for it."),
		stale:      desc("stale_writes_total", "Writes of this instance that were dropped because the rows had changed."),
	}
}

// Describe implements prometheus.Collector.
func (r *rows) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{r.up, r.waiting, r.pending, r.parked, r.active, r.batches, r.deliveries, r.errands, r.retries, r.stale} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (r *rows) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	gauge := func(d *prometheus.Desc, n int, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(n), labels...)
	}
	stats := r.db.Stats()
	ch <- prometheus.MustNewConstMetric(r.retries, prometheus.CounterValue, float64(stats.Retries))
	ch <- prometheus.MustNewConstMetric(r.stale, prometheus.CounterValue, float64(stats.StaleCallbacks))
	c, err := r.db.Counts(ctx)
	if err != nil {
		r.log.Warn("reading the counts for a scrape", "error", err)
		gauge(r.up, 0)
		return
	}
	gauge(r.up, 1)
	gauge(r.waiting, c.Waiting)
	gauge(r.pending, c.PendingApproval)
	gauge(r.parked, c.ParkedQueues)
	gauge(r.deliveries, c.DeliveriesDue, "due")
	gauge(r.deliveries, c.DeliveriesFailed, "failed")
	gauge(r.errands, c.ErrandsDue, "due")
	gauge(r.errands, c.ErrandsGivenUp, "given_up")
	active := map[string]int{"RUNNING": 0, "BLOCKED": 0}
	for _, b := range c.Batches {
		gauge(r.batches, b.Number, b.Status.String(), string(b.Code))
		if b.Status.Active() {
			active[b.Status.String()] += b.Number
		}
	}
	for status, n := range active {
		gauge(r.active, n, status)
	}
}
