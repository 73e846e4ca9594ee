package config

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/batchbot/batchbot/bot"
)

// Limits of the repository file. It is written by people who may not be ours, so what it can make the bot do is bounded.
const (
	MaxRepositoryFile = 64 << 10 // bytes
	maxQueues         = 100
	maxChecks         = 100
	maxName           = 255 // bytes of a branch or check name
	maxMistakes       = 10
	maxFlakeRate      = 0.2 // beyond it one red run hardly says anything
)

// ParseRepositoryFile reads .batchbot.yml as it stands on a target branch. defaultBranch only serves the error texts. Its error is
// Mistakes; every line says at which line and column.
func ParseRepositoryFile(content []byte, defaultBranch string) (bot.RepositorySettings, error) {
	if defaultBranch == "" {
		defaultBranch = "main"
	}
	p := repositoryParser{example: defaultBranch}
	settings := p.file(content)
	if n := len(p.mistakes); n > 0 {
		if n > maxMistakes {
			p.mistakes = append(p.mistakes[:maxMistakes], fmt.Sprintf("and %d more mistakes", n-maxMistakes))
		}
		return bot.RepositorySettings{}, p.mistakes
	}
	return settings, nil
}

// repositoryParser walks the nodes of the file itself: only the nodes know lines and columns.
type repositoryParser struct {
	example  string
	mistakes Mistakes
}

func (p *repositoryParser) say(n *yaml.Node, format string, args ...any) {
	p.mistakes.add("line %d, column %d: %s", n.Line, n.Column, fmt.Sprintf(format, args...))
}

func (p *repositoryParser) file(content []byte) (settings bot.RepositorySettings) {
	start := &yaml.Node{Line: 1, Column: 1}
	none := func() { p.say(start, "no queues: write queues:, and below it - branch: %s", p.example) }
	switch {
	case len(content) > MaxRepositoryFile:
		p.say(start, "the file has %d bytes: at most %d", len(content), MaxRepositoryFile)
		return settings
	case !utf8.Valid(content):
		p.say(start, "the file is not UTF-8 text")
		return settings
	}
	decoder := yaml.NewDecoder(strings.NewReader(string(content)))
	var document, second yaml.Node
	switch err := decoder.Decode(&document); {
	case errors.Is(err, io.EOF):
		none()
		return settings
	case err != nil:
		p.syntax(err)
		return settings
	}
	switch err := decoder.Decode(&second); {
	case err == nil:
		p.say(&second, "a second document: the file holds one, remove the line ---")
		return settings
	case !errors.Is(err, io.EOF):
		p.syntax(err)
		return settings
	}
	root := document.Content[0]
	if node := shared(root); node != nil {
		p.say(node, "anchors and aliases (& and *) are not read here: write the values out")
		return settings
	}
	if root.ShortTag() == "!!null" {
		none()
		return settings
	}
	var queues *yaml.Node
	p.mapping(root, "the file", map[string]func(*yaml.Node){"queues": func(n *yaml.Node) { queues = n }})
	switch {
	case len(p.mistakes) > 0 && queues == nil:
	case queues == nil || queues.ShortTag() == "!!null" || (queues.Kind == yaml.SequenceNode && len(queues.Content) == 0):
		if queues != nil {
			start = queues
		}
		none()
	case queues.Kind != yaml.SequenceNode:
		p.say(queues, "queues is not a list: write each queue below it, as in - branch: %s", p.example)
	case len(queues.Content) > maxQueues:
		p.say(queues, "%d queues: at most %d", len(queues.Content), maxQueues)
	default:
		seen := make(map[string]int)
		for i, n := range queues.Content {
			q := p.queue(n, fmt.Sprintf("queues[%d]", i))
			if q.Branch == "" {
				continue
			}
			if first, twice := seen[q.Branch]; twice {
				p.say(n, "queues[%d]: branch %s has a queue already, at line %d: join the two", i, quoted(q.Branch), first)
			}
			seen[q.Branch] = n.Line
			settings.Queues = append(settings.Queues, q)
		}
	}
	return settings
}

// syntax turns the YAML library's words into ours. It tells lines only, so the column is the first.
func (p *repositoryParser) syntax(err error) {
	line, text := 1, strings.TrimPrefix(err.Error(), "yaml: ")
	if rest, ok := strings.CutPrefix(text, "line "); ok {
		number, message, found := strings.Cut(rest, ": ")
		if n, err := strconv.Atoi(number); err == nil && found {
			line, text = max(n, 1), message
		}
	}
	p.say(&yaml.Node{Line: line, Column: 1}, "not YAML: %s", strings.ToValidUTF8(text, "?"))
}

// shared finds an anchor or alias. They could make a small file a huge one, so they are refused before anything is read.
func shared(n *yaml.Node) *yaml.Node {
	if n.Anchor != "" || n.Kind == yaml.AliasNode {
		return n
	}
	for _, c := range n.Content {
		if found := shared(c); found != nil {
			return found
		}
	}
	return nil
}

// mapping calls the reader of every key and refuses keys that have none or stand twice.
func (p *repositoryParser) mapping(n *yaml.Node, what string, readers map[string]func(*yaml.Node)) bool {
	var known []string
	for key := range readers {
		known = append(known, key)
	}
	slices.Sort(known)
	if n.Kind != yaml.MappingNode {
		p.say(n, "%s is not a set of keys: write any of %s, each with a colon and its value", what, oneOf(known))
		return false
	}
	seen := make(map[string]int)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		read, ok := readers[key.Value]
		switch {
		case key.Kind != yaml.ScalarNode || !ok:
			p.say(key, "%s: %s", what, unknownKey(key.Value, known))
		case seen[key.Value] > 0:
			p.say(key, "%s: %s stands at line %d already: remove one of the two", what, key.Value, seen[key.Value])
		default:
			seen[key.Value] = key.Line
			read(value)
		}
	}
	return true
}

func (p *repositoryParser) queue(n *yaml.Node, what string) bot.QueueSettings {
	q := bot.DefaultQueueSettings("")
	within := func(key string) string { return what + "." + key }
	branch := false
	ok := p.mapping(n, what, map[string]func(*yaml.Node){
		"branch": func(n *yaml.Node) {
			branch = true
			q.Branch = p.branch(n, within("branch"))
		},
		"max_batch_size": func(n *yaml.Node) { q.MaxBatchSize = p.number(n, within("max_batch_size"), 1, 1000) },
		"fill_wait":      func(n *yaml.Node) { q.FillWait = p.duration(n, within("fill_wait"), 0, 24*time.Hour) },
		"flake_rate":     func(n *yaml.Node) { q.FlakeRate = p.share(n, within("flake_rate"), maxFlakeRate) },
		"landing": func(n *yaml.Node) {
			q.Landing = choice(p, n, within("landing"), bot.LandByMerge, bot.LandByPush, bot.LandManually)
		},
		"approvals": func(n *yaml.Node) { p.approvals(n, within("approvals"), &q.Approvals) },
		"checks":    func(n *yaml.Node) { p.checks(n, within("checks"), &q.Checks) },
		"timeout":   func(n *yaml.Node) { q.Timeout = p.duration(n, within("timeout"), time.Minute, 7*24*time.Hour) },
		"trains":    func(n *yaml.Node) { q.Trains = p.trains(n, within("trains")) },
		"reminders": func(n *yaml.Node) { p.reminders(n, within("reminders"), &q.Reminders) },
	})
	if ok && !branch {
		p.say(n, "%s: branch is missing: name the branch that merge requests land on, as in branch: %s", what, p.example)
	}
	return q
}

func (p *repositoryParser) approvals(n *yaml.Node, what string, a *bot.ApprovalPolicy) {
	p.mapping(n, what, map[string]func(*yaml.Node){
		"count": func(n *yaml.Node) { a.Count = p.number(n, what+".count", 0, 100) },
		// Anybody on a public repository may read it: an approval that counts needs at least the right to push.
		"minimum": func(n *yaml.Node) {
			a.Minimum = choice(p, n, what+".minimum", bot.PermissionWrite, bot.PermissionMaintain, bot.PermissionAdmin)
		},
	})
}

func (p *repositoryParser) checks(n *yaml.Node, what string, c *bot.CheckPolicy) {
	p.mapping(n, what, map[string]func(*yaml.Node){
		"required":   func(n *yaml.Node) { c.Required = p.names(n, what+".required") },
		"none_after": func(n *yaml.Node) { c.NoneAfter = p.duration(n, what+".none_after", 0, 24*time.Hour) },
		"none": func(n *yaml.Node) {
			c.None = choice(p, n, what+".none", bot.WithoutChecksWait, bot.WithoutChecksPass)
		},
		"quiet_time": func(n *yaml.Node) { c.QuietTime = p.duration(n, what+".quiet_time", 0, time.Hour) },
	})
}

// text reads one piece of text.
func (p *repositoryParser) text(n *yaml.Node, what string) (string, bool) {
	switch {
	case n.Kind != yaml.ScalarNode:
		p.say(n, "%s is not one value", what)
	case n.ShortTag() == "!!null":
		p.say(n, "%s is empty: give it a value or remove it", what)
	case n.ShortTag() != "!!str":
		p.say(n, "%s: %s is not text: put it in quotes", what, quoted(n.Value))
	case strings.ContainsFunc(n.Value, unicode.IsControl):
		p.say(n, "%s: %s holds control characters", what, quoted(n.Value))
	case strings.TrimSpace(n.Value) == "":
		p.say(n, "%s is empty: give it a value or remove it", what)
	case len(n.Value) > maxName:
		p.say(n, "%s: %s is longer than %d bytes", what, quoted(n.Value), maxName)
	default:
		return n.Value, true
	}
	return "", false
}

func (p *repositoryParser) branch(n *yaml.Node, what string) string {
	name, ok := p.text(n, what)
	if !ok {
		return ""
	}
	switch {
	case strings.HasPrefix(name, "refs/"):
		p.say(n, "%s: %s begins with refs/: write the branch alone, such as %s", what, quoted(name), p.example)
	case strings.HasPrefix(name, bot.BatchBranchPrefix):
		p.say(n, "%s: %s is a name of the bot's own branches: choose a branch that people merge into", what, quoted(name))
	case !isBranch(name):
		p.say(n, "%s: %s cannot be the name of a branch: patterns are not read, write one branch such as %s", what, quoted(name), p.example)
	default:
		return name
	}
	return ""
}

// isBranch follows git's rules for the name of a branch.
func isBranch(name string) bool {
	if name == "@" || strings.HasPrefix(name, "-") || strings.HasSuffix(name, ".") || strings.ContainsAny(name, " ~^:?*[\\\x7f") ||
		strings.Contains(name, "..") || strings.Contains(name, "@{") {
		return false
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || strings.HasPrefix(part, ".") || strings.HasSuffix(part, ".lock") {
			return false
		}
	}
	return true
}

func (p *repositoryParser) number(n *yaml.Node, what string, least, most int) int {
	v, err := strconv.Atoi(n.Value)
	switch {
	case n.Kind != yaml.ScalarNode || n.ShortTag() != "!!int" || err != nil:
		p.say(n, "%s: %s is not a whole number from %d to %d", what, written(n), least, most)
	case v < least || v > most:
		p.say(n, "%s: %d is out of range: write %d to %d", what, v, least, most)
	}
	return v
}

// share reads a part of the whole, from 0 to most.
func (p *repositoryParser) share(n *yaml.Node, what string, most float64) float64 {
	v, err := strconv.ParseFloat(n.Value, 64)
	switch tag := n.ShortTag(); {
	case n.Kind != yaml.ScalarNode || (tag != "!!float" && tag != "!!int") || err != nil:
		p.say(n, "%s: %s is not a number from 0 to %v, such as 0.01 for one in a hundred", what, written(n), most)
	case !(v >= 0 && v <= most): // so that it is neither when it is no number
		p.say(n, "%s: %s is out of range: write 0 to %v, such as 0.01 for one in a hundred", what, n.Value, most)
	}
	return v
}

func (p *repositoryParser) duration(n *yaml.Node, what string, least, most time.Duration) time.Duration {
	d, err := time.ParseDuration(n.Value)
	switch {
	case n.Kind != yaml.ScalarNode || (n.ShortTag() != "!!str" && n.Value != "0") || err != nil:
		p.say(n, "%s: %s is not a duration: write a number with a unit, such as 30s, 5m or 2h", what, written(n))
	case d < least || d > most:
		p.say(n, "%s: %s is out of range: write %s to %s", what, n.Value, short(least), short(most))
	}
	return d
}

func (p *repositoryParser) names(n *yaml.Node, what string) []string {
	if n.Kind != yaml.SequenceNode {
		p.say(n, "%s is not a list: write it as [ci, lint]", what)
		return nil
	}
	if len(n.Content) > maxChecks {
		p.say(n, "%s has %d names: at most %d", what, len(n.Content), maxChecks)
		return nil
	}
	var names []string
	for i, c := range n.Content {
		name, ok := p.text(c, fmt.Sprintf("%s[%d]", what, i))
		switch {
		case !ok:
		case slices.Contains(names, name):
			p.say(c, "%s[%d]: %s stands in the list already", what, i, quoted(name))
		default:
			names = append(names, name)
		}
	}
	return names
}

// choice reads one of a few words.
func choice[T ~string](p *repositoryParser, n *yaml.Node, what string, words ...T) T {
	for _, w := range words {
		if n.Kind == yaml.ScalarNode && n.Value == string(w) {
			return w
		}
	}
	list := make([]string, len(words))
	for i, w := range words {
		list[i] = string(w)
	}
	p.say(n, "%s: %s is not possible: write %s", what, written(n), oneOf(list))
	return ""
}

// written shows what stands at a node.
func written(n *yaml.Node) string {
	switch n.Kind {
	case yaml.ScalarNode:
		return quoted(n.Value)
	case yaml.SequenceNode:
		return "a list"
	}
	return "a set of keys"
}

// short writes a duration without its zero parts: 24h, not 24h0m0s.
func short(d time.Duration) string {
	if d == 0 {
		return "0"
	}
	s := d.String()
	for _, zero := range []string{"0s", "0m"} {
		if cut := strings.TrimSuffix(s, zero); strings.HasSuffix(cut, "m") || strings.HasSuffix(cut, "h") {
			s = cut
		}
	}
	return s
}
