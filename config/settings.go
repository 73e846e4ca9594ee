package config

import (
	"path/filepath"
	"strings"
	"time"

	"github.com/batchbot/batchbot/bot"
)

// Settings is everything the server is told. Load fills in defaults and the secrets that stand in files.
type Settings struct {
	Listen      string `koanf:"listen" validate:"listen"`
	PublicURL   string `koanf:"public_url" validate:"omitempty,weburl"` // where people and hosts reach the server; empty: not told
	DataDir     string `koanf:"data_dir" validate:"required"`           // git mirrors, and the SQLite database unless database.path says otherwise
	Environment string `koanf:"environment" validate:"label"`           // names the advisory locks, which are server-wide in MySQL

	Database  Database  `koanf:"database"`
	Hosts     []Host    `koanf:"hosts" validate:"min=1,unique=Name,dive"`
	Rounds    Rounds    `koanf:"rounds"`
	Look      Look      `koanf:"look"`
	Retention Retention `koanf:"retention"`
	Log       Log       `koanf:"log"`

	Reconcile Reconcile `koanf:"reconcile"`
	Jobs      Jobs      `koanf:"jobs"`
	API       API       `koanf:"api"`

	ShutdownTimeout time.Duration `koanf:"shutdown_timeout" validate:"min=100ms,max=10m"` // after this what still runs is abandoned
}

// Database says where the rows are.
type Database struct {
	Driver  string     `koanf:"driver" validate:"oneof=sqlite mysql"`
	Path    string     `koanf:"path"`     // sqlite: the file; default data_dir/batchbot.db
	DSN     bot.Secret `koanf:"dsn"`      // mysql: user:password@tcp(host:port)/database
	DSNFile string     `koanf:"dsn_file"` // mysql: a file that holds the DSN
	Migrate bool       `koanf:"migrate"`  // migrate at start; SQLite always does

	ConnectTimeout time.Duration `koanf:"connect_timeout" validate:"min=1s,max=10m"` // how long to wait at start for a database that does not answer
	MaxConnections int           `koanf:"max_connections" validate:"min=4,max=1000"` // mysql: of this instance at most
}

// The database drivers.
const (
	SQLite = "sqlite"
	MySQL  = "mysql"
)

// Host is one Git host and how to act on it.
type Host struct {
	Name string `koanf:"name" validate:"label"` // stable: rows refer to it
	Type string `koanf:"type" validate:"oneof=github gitlab"`

	WebURL string `koanf:"web_url" validate:"weburl"` // default https://github.com or https://gitlab.com
	APIURL string `koanf:"api_url" validate:"weburl"` // default https://api.github.com, elsewhere web_url/api/v3 or, on GitLab, web_url/api/v4
	GitURL string `koanf:"git_url" validate:"weburl"` // default web_url

	App       App        `koanf:"app"`
	Token     bot.Secret `koanf:"token"`
	TokenFile string     `koanf:"token_file"`

	WebhookSecrets     []bot.Secret `koanf:"webhook_secrets"`      // one, or two while a new one is rolled out
	WebhookSecretFiles []string     `koanf:"webhook_secret_files"` // files that hold one each
	SigningTokens      []bot.Secret `koanf:"signing_tokens"`       // GitLab: one, or two; may replace the secrets
	SigningTokenFiles  []string     `koanf:"signing_token_files"`  // files that hold one each

	WriteSpacing time.Duration `koanf:"write_spacing" validate:"min=0,max=1m"` // least time between two writes
}

// App authenticates as a GitHub App.
type App struct {
	ID             int64      `koanf:"id" validate:"min=0"`
	PrivateKey     bot.Secret `koanf:"private_key"` // PEM
	PrivateKeyFile string     `koanf:"private_key_file"`
}

// Given reports whether anything of the App is configured.
func (a App) Given() bool { return a != App{} }

// Rounds paces the round driver.
type Rounds struct {
	Poll time.Duration `koanf:"poll" validate:"min=100ms,max=10m"` // between two looks at a queue when no event nudges it
}

// Look paces the periodic look at the host, which finds what a webhook should have told.
type Look struct {
	Interval    time.Duration `koanf:"interval" validate:"min=1s,max=24h"`
	MaxInterval time.Duration `koanf:"max_interval" validate:"min=1s,max=24h,gtefield=Interval"` // it stretches up to this while nothing happens
}

// Reconcile paces the comparison of all rows with the host.
type Reconcile struct {
	Interval time.Duration `koanf:"interval" validate:"min=0,max=24h"` // 0: only when an operator asks
}

// Jobs says when the scheduled jobs are due that have no settings of their own: a duration since they were last, or five fields of cron in UTC.
type Jobs struct {
	Sweep     string `koanf:"sweep"`     // overdue batches are looked at
	Trains    string `koanf:"trains"`    // trains are opened, and depart
	Cleanup   string `koanf:"cleanup"`   // what is past its time ends or is deleted
	Reminders string `koanf:"reminders"` // whoever lets others wait is reminded
}

// API says who may use the REST API. Without tokens there is none.
type API struct {
	Tokens []APIToken `koanf:"tokens" validate:"max=100,unique=Name,dive"`
}

// APIToken is one bearer token of the REST API.
type APIToken struct {
	Name      string     `koanf:"name" validate:"label"` // who acts, in rows and for people: "api:NAME"
	Role      string     `koanf:"role" validate:"oneof=read write operator"`
	Token     bot.Secret `koanf:"token"`
	TokenFile string     `koanf:"token_file"`
}

// leastToken is the fewest characters of a bearer token: below it, it could be guessed.
const leastToken = 16

// Retention says how long what was received and done is kept, by the database's clock. A delivery is known no shorter than its payload is
// kept, and a command no shorter than its delivery, so that one that comes again finds what it once did.
type Retention struct {
	Payloads   time.Duration `koanf:"payloads" validate:"min=1h,max=87600h"`                      // what webhooks said
	Deliveries time.Duration `koanf:"deliveries" validate:"min=72h,max=87600h,gtefield=Payloads"` // that a webhook came; hosts send one again for three days
	Commands   time.Duration `koanf:"commands" validate:"min=72h,max=87600h,gtefield=Deliveries"` // that a command was dealt with
	Errands    time.Duration `koanf:"errands" validate:"min=1h,max=87600h"`                       // that something was done on the host
}

// Log says what is logged and how.
type Log struct {
	Level  string `koanf:"level" validate:"oneof=debug info warn error"`
	Format string `koanf:"format" validate:"oneof=json text"`
}

const day = 24 * time.Hour

// Defaults is the server without a configuration. It has no host and thus is not yet valid.
func Defaults() Settings {
	return Settings{
		Listen:          "127.0.0.1:8080",
		DataDir:         "data",
		Environment:     "production",
		Database:        Database{Driver: SQLite, ConnectTimeout: 15 * time.Second, MaxConnections: 16},
		Rounds:          Rounds{Poll: 15 * time.Second},
		Look:            Look{Interval: time.Minute, MaxInterval: 10 * time.Minute},
		Reconcile:       Reconcile{Interval: 15 * time.Minute},
		Jobs:            Jobs{Sweep: "1m", Trains: "15s", Cleanup: "10m", Reminders: "5m"},
		Retention:       Retention{Payloads: 7 * day, Deliveries: 90 * day, Commands: 90 * day, Errands: 7 * day},
		Log:             Log{Level: "info", Format: "json"},
		ShutdownTimeout: 10 * time.Second,
	}
}

// defaultHost is a host of which nothing is told but that it exists.
func defaultHost() Host {
	return Host{Type: GitHub, WriteSpacing: time.Second}
}

// The types of hosts.
const (
	GitHub = "github"
	GitLab = "gitlab"
)

const githubURL = "https://github.com"

// derive fills in what follows from other settings.
func (s *Settings) derive() {
	if s.Database.Driver == SQLite && s.Database.Path == "" && s.DataDir != "" {
		s.Database.Path = filepath.Join(s.DataDir, "batchbot.db")
	}
	for i := range s.Hosts {
		h := &s.Hosts[i]
		if h.WebURL == "" {
			h.WebURL = "https://" + h.Type + ".com" // a type that is none is found elsewhere
		}
		h.WebURL = strings.TrimSuffix(h.WebURL, "/")
		if h.APIURL == "" {
			switch {
			case h.Type == GitLab:
				h.APIURL = h.WebURL + "/api/v4"
			case h.WebURL == githubURL:
				h.APIURL = "https://api.github.com"
			default:
				h.APIURL = h.WebURL + "/api/v3"
			}
		}
		if h.GitURL == "" {
			h.GitURL = h.WebURL
		}
		h.APIURL, h.GitURL = strings.TrimSuffix(h.APIURL, "/"), strings.TrimSuffix(h.GitURL, "/")
	}
	s.PublicURL = strings.TrimSuffix(s.PublicURL, "/")
}
