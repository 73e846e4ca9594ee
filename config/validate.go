package config

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-playground/validator/v10"

	"github.com/batchbot/batchbot/bot"
)

// label is a name that is safe in file names, lock names, URLs and environment variables.
var label = regexp.MustCompile(`^[a-z][a-z0-9-]{0,31}$`)

// rules builds the validator once: it caches what it learns about the structs.
var rules = sync.OnceValue(func() *validator.Validate {
	v := validator.New(validator.WithRequiredStructEnabled())
	v.RegisterTagNameFunc(func(f reflect.StructField) string { return f.Tag.Get("koanf") })
	for tag, holds := range map[string]func(string) bool{
		"label":  label.MatchString,
		"listen": isListenAddress,
		"weburl": isWebURL,
	} {
		if err := v.RegisterValidation(tag, func(f validator.FieldLevel) bool { return holds(f.Field().String()) }); err != nil {
			panic(err) // only an empty tag or a nil function is refused
		}
	}
	v.RegisterStructValidation(databaseRules, Database{})
	v.RegisterStructValidation(hostRules, Host{})
	v.RegisterStructValidation(apiTokenRules, APIToken{})
	return v
})

func isListenAddress(text string) bool {
	_, port, err := net.SplitHostPort(text)
	if err != nil {
		return false
	}
	n, err := strconv.Atoi(port)
	return err == nil && n >= 0 && n <= 65535
}

func isWebURL(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Hostname() != "" && u.User == nil && u.RawQuery == "" && u.Fragment == ""
}

// databaseRules checks what depends on the driver.
func databaseRules(sl validator.StructLevel) {
	d := sl.Current().Interface().(Database)
	switch d.Driver {
	case SQLite:
		if d.DSN != "" {
			sl.ReportError(d.DSN, "dsn", "DSN", "only", MySQL)
		}
		if d.DSNFile != "" {
			sl.ReportError(d.DSNFile, "dsn_file", "DSNFile", "only", MySQL)
		}
	case MySQL:
		if d.Path != "" {
			sl.ReportError(d.Path, "path", "Path", "only", SQLite)
		}
		if (d.DSN == "") == (d.DSNFile == "") {
			sl.ReportError(d.DSN, "dsn", "DSN", "exactly_one", "dsn or dsn_file")
		}
	}
}

// hostRules checks the credentials: one way to act on the host, and one or two secrets that webhooks are signed with.
func hostRules(sl validator.StructLevel) {
	h := sl.Current().Interface().(Host)
	ways := 0
	for _, given := range []bool{h.App.Given(), h.Token != "", h.TokenFile != ""} {
		if given {
			ways++
		}
	}
	if ways != 1 {
		sl.ReportError(h.Token, "token", "Token", "exactly_one", "app, token or token_file")
	}
	if h.Type == GitLab && h.App.Given() {
		sl.ReportError(h.App.ID, "app", "App", "only_github", "")
	} else if h.App.Given() {
		if h.App.ID == 0 {
			sl.ReportError(h.App.ID, "app.id", "ID", "app_id", "")
		}
		if (h.App.PrivateKey == "") == (h.App.PrivateKeyFile == "") {
			sl.ReportError(h.App.PrivateKey, "app.private_key_file", "PrivateKeyFile", "exactly_one", "private_key or private_key_file")
		}
	}
	signing := len(h.SigningTokens) + len(h.SigningTokenFiles)
	switch {
	case signing > 0 && h.Type != GitLab:
		sl.ReportError(signing, "signing_tokens", "SigningTokens", "only_gitlab", "")
	case signing > 2:
		sl.ReportError(signing, "signing_tokens", "SigningTokens", "signing_tokens", strconv.Itoa(signing))
	}
	if n := len(h.WebhookSecrets) + len(h.WebhookSecretFiles); n > 2 || n == 0 && signing == 0 {
		sl.ReportError(n, "webhook_secret_files", "WebhookSecretFiles", "webhook_secrets", strconv.Itoa(n))
	}
}

// apiTokenRules demands one token, here or in a file.
func apiTokenRules(sl validator.StructLevel) {
	t := sl.Current().Interface().(APIToken)
	if (t.Token == "") == (t.TokenFile == "") {
		sl.ReportError(t.Token, "token_file", "TokenFile", "exactly_one", "token or token_file")
	}
}

// checkTokens refuses bearer tokens that can be guessed, and two that are the same: whose it is decides what may be done.
func (l *loader) checkTokens(tokens []APIToken) {
	for i, t := range tokens {
		at := fmt.Sprintf("api.tokens[%d].token", i)
		if t.TokenFile != "" {
			at += "_file"
		}
		switch n := len(t.Token); {
		case n == 0: // its file could not be read: said already
		case n < leastToken:
			l.say(at, "holds %d characters and %d are the fewest: make one with `openssl rand -hex 32`", n, leastToken)
		case strings.ContainsFunc(t.Token.Reveal(), func(r rune) bool { return r <= ' ' || r > '~' }):
			l.say(at, "holds something else than visible ASCII characters, which no client can send: make one with `openssl rand -hex 32`")
		case slices.ContainsFunc(tokens[:i], func(o APIToken) bool { return o.Token == t.Token }):
			l.say(at, "is the token of another name as well: give each its own")
		}
	}
}

func (l *loader) validate(s *Settings) {
	err := rules().Struct(s)
	var found validator.ValidationErrors
	if err != nil && !errors.As(err, &found) {
		l.mistakes.add("%s: %v", l.file, err)
	}
	for _, f := range found {
		_, path, _ := strings.Cut(f.Namespace(), ".")
		l.say(path, "%s", describe(f))
	}
}

// describe says what is wrong with one setting and what to do.
func describe(f validator.FieldError) string {
	value := printable(f)
	switch f.Tag() {
	case "required":
		return "is missing: give it a value"
	case "unique":
		return "two of them are named " + quoted(twin(f.Value())) + ": rows refer to them by name, give each its own"
	case "label":
		if value == `""` {
			return "is missing: give it a short name of lower-case letters, digits and hyphens"
		}
		return value + " is not a name: 1 to 32 lower-case letters, digits and hyphens, beginning with a letter"
	case "listen":
		return value + " is not an address to listen on: write host:port, such as 127.0.0.1:8080"
	case "weburl":
		return value + " is not a plain web address: write https://name or https://name/path, without user, password, query or fragment"
	case "oneof":
		return value + " is not possible: write " + oneOf(strings.Fields(f.Param()))
	case "min":
		if f.Kind() == reflect.Slice {
			return "is missing: at least one is needed, see batchbot.example.yml"
		}
		return value + " is too small: at least " + f.Param()
	case "max":
		return value + " is too large: at most " + f.Param()
	case "gtefield":
		return value + " is less than " + strings.ToLower(f.Param()) + ": make it as long or longer"
	case "only":
		return "belongs to driver: " + f.Param() + ": remove it or change database.driver"
	case "exactly_one":
		return "exactly one is needed of " + f.Param()
	case "only_github":
		return "belongs to type: github: on GitLab the bot acts with a token of a project, a group or a user of its own"
	case "only_gitlab":
		return "belongs to type: gitlab: remove it"
	case "signing_tokens":
		return f.Param() + " signing tokens are given: name one, or two while a new one is rolled out"
	case "app_id":
		return "is missing: the number GitHub shows as App ID on the App's settings page"
	case "webhook_secrets":
		return f.Param() + " secrets are given: name one, or two while a new one is rolled out, in webhook_secrets or webhook_secret_files"
	}
	return value + " breaks the rule " + f.Tag()
}

// printable shows a setting unless it is, or may hold, a secret.
func printable(f validator.FieldError) string {
	switch v := f.Value().(type) {
	case bot.Secret:
		return "the value"
	case time.Duration:
		return v.String()
	case string:
		if f.Tag() == "weburl" && strings.Contains(v, "@") {
			return "the value"
		}
		return quoted(v)
	}
	return show(f.Value())
}

// twin finds a name given twice, to hosts or to tokens.
func twin(value any) string {
	var names []string
	switch list := value.(type) {
	case []Host:
		for _, h := range list {
			names = append(names, h.Name)
		}
	case []APIToken:
		for _, t := range list {
			names = append(names, t.Name)
		}
	}
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			return name
		}
	}
	return ""
}
