package config

import (
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/batchbot/batchbot/bot"
)

// Bounds of reminders: nobody is reminded of what is older than bot.ReminderLimit, and a bot that reminds every minute is switched off by its users.
const leastInterval = time.Hour

func (p *repositoryParser) reminders(n *yaml.Node, what string, r *bot.ReminderPolicy) {
	p.mapping(n, what, map[string]func(*yaml.Node){
		"approvers":   func(n *yaml.Node) { r.Approvers = p.unlessOff(n, what+".approvers") },
		"owners":      func(n *yaml.Node) { r.Owners = p.unlessOff(n, what+".owners") },
		"every":       func(n *yaml.Node) { r.Every = p.unlessOff(n, what+".every") },
		"quiet_hours": func(n *yaml.Node) { r.Quiet = p.quietHours(n, what+".quiet_hours") },
	})
}

// unlessOff reads how long something is waited for; 0: for ever.
func (p *repositoryParser) unlessOff(n *yaml.Node, what string) time.Duration {
	mistakes := len(p.mistakes)
	d := p.duration(n, what, 0, bot.ReminderLimit)
	if len(p.mistakes) == mistakes && d > 0 && d < leastInterval {
		p.say(n, "%s: %s is too short: write %s or more, or 0 for never", what, n.Value, short(leastInterval))
	}
	return d
}

func (p *repositoryParser) quietHours(n *yaml.Node, what string) (q bot.QuietHours) {
	var from, to *yaml.Node
	mistakes := len(p.mistakes)
	ok := p.mapping(n, what, map[string]func(*yaml.Node){
		"from": func(n *yaml.Node) { from, q.From = n, p.timeOfDay(n, what+".from") },
		"to":   func(n *yaml.Node) { to, q.To = n, p.timeOfDay(n, what+".to") },
		"time_zone": func(n *yaml.Node) {
			if text, ok := p.text(n, what+".time_zone"); ok && p.zone(n, what+".time_zone", text) {
				q.TimeZone = text
			}
		},
		"weekends": func(n *yaml.Node) { q.Weekends = p.yesOrNo(n, what+".weekends") },
	})
	switch {
	case !ok || len(p.mistakes) > mistakes:
	case (from == nil) != (to == nil):
		p.say(n, "%s: from and to belong together: write both, as in from: \"20:00\" and to: \"08:00\"", what)
	case from == nil && !q.Weekends:
		p.say(n, "%s: no hours are quiet: write from and to, as in from: \"20:00\" and to: \"08:00\", or weekends: true", what)
	}
	return q
}

// timeOfDay reads a time of the day to the minute, as the time since midnight. Without quotes YAML makes a number of some of them, so they are read as
// they are written.
func (p *repositoryParser) timeOfDay(n *yaml.Node, what string) time.Duration {
	at, err := time.Parse("15:04", n.Value)
	if n.Kind != yaml.ScalarNode || err != nil {
		p.say(n, "%s: %s is not a time of the day: write hours and minutes, as in \"08:00\"", what, written(n))
		return 0
	}
	return time.Duration(at.Hour())*time.Hour + time.Duration(at.Minute())*time.Minute
}

func (p *repositoryParser) yesOrNo(n *yaml.Node, what string) bool {
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!bool" {
		p.say(n, "%s: %s is neither true nor false", what, written(n))
	}
	return n.Value == "true"
}
