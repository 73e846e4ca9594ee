package config

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/batchbot/batchbot/bot"
)

func TestARepositoryFileThatSaysEverything(t *testing.T) {
	t.Parallel()
	got, err := ParseRepositoryFile([]byte(`
queues:
  - branch: main
  - branch: release/1.x
    max_batch_size: 8
    fill_wait: 2m
    flake_rate: 0.03
    landing: push
    approvals: {minimum: maintain, count: 2}
    checks:
      required: [ci, "lint / go"]
      none_after: 90s
      none: pass
      quiet_time: 0
    timeout: 4h
    reminders: {approvers: 0, owners: 2h, every: 0}
`), "main")
	if err != nil {
		t.Fatal(err)
	}
	want := bot.RepositorySettings{Queues: []bot.QueueSettings{bot.DefaultQueueSettings("main"), {
		Branch: "release/1.x", MaxBatchSize: 8, FillWait: 2 * time.Minute, FlakeRate: 0.03, Landing: bot.LandByPush,
		Approvals: bot.ApprovalPolicy{Minimum: bot.PermissionMaintain, Count: 2},
		Checks:    bot.CheckPolicy{Required: []string{"ci", "lint / go"}, NoneAfter: 90 * time.Second, None: bot.WithoutChecksPass},
		Timeout:   4 * time.Hour,
		Reminders: bot.ReminderPolicy{Owners: 2 * time.Hour},
	}}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestMistakesInARepositoryFile(t *testing.T) {
	t.Parallel()
	const none = "line 1, column 1: no queues: write queues:, and below it - branch: develop"
	queue := func(more string) string { return "queues:\n  - branch: main\n    " + more + "\n" }
	for name, test := range map[string]struct{ file, want string }{
		"empty file":        {"", none},
		"only a comment":    {"# nothing\n", none},
		"no queues":         {"{}", none},
		"queues left empty": {"queues:\n", "line 1, column 8: no queues: write queues:, and below it - branch: develop"},
		"empty list":        {"queues: []\n", "line 1, column 9: no queues: write queues:, and below it - branch: develop"},
		"not a list":        {"queues: main\n", "line 1, column 9: queues is not a list: write each queue below it, as in - branch: develop"},
		"not keys":          {"- main\n", "line 1, column 1: the file is not a set of keys: write any of queues, each with a colon and its value"},
		"queue not keys":    {"queues: [main]\n", "line 1, column 10: queues[0] is not a set of keys: write any of approvals, branch, checks, fill_wait, flake_rate, landing, max_batch_size, reminders, timeout or trains, each with a colon and its value"},
		"unknown key":       {"queue: []\n", `line 1, column 1: the file: unknown key "queue": did you mean queues?`},
		"unknown queue key": {queue("max_batchsize: 3"), `line 3, column 5: queues[0]: unknown key "max_batchsize": did you mean max_batch_size?`},
		"unknown check key": {queue("checks: {require: [ci]}"), `line 3, column 14: queues[0].checks: unknown key "require": did you mean required?`},
		"no branch":         {"queues:\n  - max_batch_size: 3\n", "line 2, column 5: queues[0]: branch is missing: name the branch that merge requests land on, as in branch: develop"},
		"empty branch":      {"queues:\n  - branch:\n", "line 2, column 12: queues[0].branch is empty: give it a value or remove it"},
		"numeric branch":    {"queues:\n  - branch: 1.10\n", `line 2, column 13: queues[0].branch: "1.10" is not text: put it in quotes`},
		"full ref":          {"queues:\n  - branch: refs/heads/main\n", `line 2, column 13: queues[0].branch: "refs/heads/main" begins with refs/: write the branch alone, such as develop`},
		"pattern":           {"queues:\n  - branch: release/*\n", `line 2, column 13: queues[0].branch: "release/*" cannot be the name of a branch: patterns are not read, write one branch such as develop`},
		"option as branch":  {"queues:\n  - branch: --force\n", `line 2, column 13: queues[0].branch: "--force" cannot be the name of a branch: patterns are not read, write one branch such as develop`},
		"control in branch": {"queues:\n  - branch: \"a\\nb\"\n", `line 2, column 13: queues[0].branch: "a\nb" holds control characters`},
		"our own branch":    {"queues:\n  - branch: batchbot/1-x/main\n", `line 2, column 13: queues[0].branch: "batchbot/1-x/main" is a name of the bot's own branches: choose a branch that people merge into`},
		"branch twice":      {"queues:\n  - branch: main\n  - branch: main\n", `line 3, column 5: queues[1]: branch "main" has a queue already, at line 2: join the two`},
		"key twice":         {queue("timeout: 1h\n    timeout: 2h"), "line 4, column 5: queues[0]: timeout stands at line 3 already: remove one of the two"},
		"size too small":    {queue("max_batch_size: 0"), "line 3, column 21: queues[0].max_batch_size: 0 is out of range: write 1 to 1000"},
		"size no number":    {queue("max_batch_size: many"), `line 3, column 21: queues[0].max_batch_size: "many" is not a whole number from 1 to 1000`},
		"wait too long":     {queue("fill_wait: 25h"), "line 3, column 16: queues[0].fill_wait: 25h is out of range: write 0 to 24h"},
		"negative wait":     {queue("fill_wait: -1s"), "line 3, column 16: queues[0].fill_wait: -1s is out of range: write 0 to 24h"},
		"flakes in percent": {queue("flake_rate: 1%"), `line 3, column 17: queues[0].flake_rate: "1%" is not a number from 0 to 0.2, such as 0.01 for one in a hundred`},
		"too many flakes":   {queue("flake_rate: 3"), "line 3, column 17: queues[0].flake_rate: 3 is out of range: write 0 to 0.2, such as 0.01 for one in a hundred"},
		"no number at all":  {queue("flake_rate: .nan"), `line 3, column 17: queues[0].flake_rate: ".nan" is not a number from 0 to 0.2, such as 0.01 for one in a hundred`},
		"no unit":           {queue("timeout: 30"), `line 3, column 14: queues[0].timeout: "30" is not a duration: write a number with a unit, such as 30s, 5m or 2h`},
		"timeout too short": {queue("timeout: 1s"), "line 3, column 14: queues[0].timeout: 1s is out of range: write 1m to 168h"},
		"landing":           {queue("landing: squash"), `line 3, column 14: queues[0].landing: "squash" is not possible: write merge, push or manual`},
		"approvals no keys": {queue("approvals: 2"), "line 3, column 16: queues[0].approvals is not a set of keys: write any of count or minimum, each with a colon and its value"},
		"approval count":    {queue("approvals: {count: 101}"), "line 3, column 24: queues[0].approvals.count: 101 is out of range: write 0 to 100"},
		"weak approval":     {queue("approvals: {minimum: read}"), `line 3, column 26: queues[0].approvals.minimum: "read" is not possible: write write, maintain or admin`},
		"required no list":  {queue("checks: {required: ci}"), "line 3, column 24: queues[0].checks.required is not a list: write it as [ci, lint]"},
		"required twice":    {queue("checks: {required: [ci, ci]}"), `line 3, column 29: queues[0].checks.required[1]: "ci" stands in the list already`},
		"required empty":    {queue("checks: {required: ['']}"), "line 3, column 25: queues[0].checks.required[0] is empty: give it a value or remove it"},
		"none":              {queue("checks: {none: maybe}"), `line 3, column 20: queues[0].checks.none: "maybe" is not possible: write wait or pass`},
		"anchor":            {"queues:\n  - &q {branch: main}\n", "line 2, column 5: anchors and aliases (& and *) are not read here: write the values out"},
		"merge key":         {queue("<<: {timeout: 1h}"), `line 3, column 5: queues[0]: unknown key "<<": the keys here are approvals, branch, checks, fill_wait, flake_rate, landing, max_batch_size, reminders, timeout, trains`},
		"two documents":     {"queues: [{branch: main}]\n---\nqueues: [{branch: main}]\n", "line 2, column 1: a second document: the file holds one, remove the line ---"},
		"not YAML":          {"queues:\n\t- branch: main\n", "line 2, column 1: not YAML: found character that cannot start any token"},
		"not text":          {"queues: \xff", "line 1, column 1: the file is not UTF-8 text"},
		"too large":         {strings.Repeat("#", MaxRepositoryFile+1), "line 1, column 1: the file has 65537 bytes: at most 65536"},
		"several at once": {queue("landing: no\n    timeout: 3"), `line 3, column 14: queues[0].landing: "no" is not possible: write merge, push or manual` + "\n" +
			`line 4, column 14: queues[0].timeout: "3" is not a duration: write a number with a unit, such as 30s, 5m or 2h`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := ParseRepositoryFile([]byte(test.file), "develop")
			if err == nil {
				t.Fatalf("accepted as %+v", got)
			}
			if err.Error() != test.want {
				t.Errorf("got\n%s\nwant\n%s", err, test.want)
			}
		})
	}
}

func TestManyMistakesAreBounded(t *testing.T) {
	t.Parallel()
	_, err := ParseRepositoryFile([]byte("queues:\n"+strings.Repeat("  - x: 1\n", 50)), "main")
	if lines := strings.Split(err.Error(), "\n"); len(lines) != maxMistakes+1 || lines[maxMistakes] != "and 90 more mistakes" {
		t.Errorf("got %d lines, the last is %q", len(lines), lines[len(lines)-1])
	}
}

func FuzzParseRepositoryFile(f *testing.F) {
	for _, seed := range []string{
		"queues: [{branch: main}]", "queues:\n  - branch: a\n    checks: {required: [ci], none: pass}\n", "a: &a [*a, *a]", "? {a: b}\n: c",
		"queues: [{branch: !!binary aGk=}]", "- - - - -", "queues: {0: 1}", "%YAML 9.9\n---\nqueues:", "queues: [{branch: main, timeout: 0x10}]",
		"queues: [{branch: a, trains: [{name: n, schedule: '0 9 * * 1-5', time_zone: Europe/Berlin, seats: 1, boarding_closes: 5m}]}]",
	} {
		f.Add([]byte(seed))
	}
	position := regexp.MustCompile(`^line [1-9]\d*, column [1-9]\d*: .`)
	f.Fuzz(func(t *testing.T, content []byte) {
		settings, err := ParseRepositoryFile(content, "main")
		if err != nil {
			mistakes, ok := errors.AsType[Mistakes](err)
			if !ok {
				t.Fatalf("%v is not a list of mistakes", err)
			}
			for _, line := range mistakes {
				if !position.MatchString(line) && !strings.HasPrefix(line, "and ") {
					t.Errorf("%q does not say where", line)
				}
				if strings.Contains(line, "\n") {
					t.Errorf("%q is more than one line", line)
				}
			}
			return
		}
		if len(settings.Queues) == 0 {
			t.Error("accepted without a queue")
		}
		for _, q := range settings.Queues {
			if !isBranch(q.Branch) || q.MaxBatchSize < 1 || q.Timeout < time.Minute || q.Landing == "" || q.Approvals.Minimum == "" || q.Checks.None == "" {
				t.Errorf("accepted %s", fmt.Sprintf("%+v", q))
			}
			for _, plan := range q.Trains {
				if !bot.IsTrainName(plan.Name) || plan.Seats < 0 || plan.Seats > bot.MaxSeats || plan.Schedule == "" {
					t.Errorf("accepted %+v", plan)
				}
			}
		}
	})
}
