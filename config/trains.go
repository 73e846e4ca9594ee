package config

import (
	"fmt"
	"strings"
	"time"

	"github.com/netresearch/go-cron"
	"go.yaml.in/yaml/v3"

	"github.com/batchbot/batchbot/bot"
)

const (
	maxTrains   = 20                 // of one queue
	maxBoarding = 7 * 24 * time.Hour // between the end of boarding and the departure
)

// trains reads the trains of a queue. Their names are told apart whatever their case: people type them.
func (p *repositoryParser) trains(n *yaml.Node, what string) (plans []bot.TrainPlan) {
	switch {
	case n.Kind != yaml.SequenceNode:
		p.say(n, "%s is not a list: write each train below it, as in - name: nightly", what)
		return nil
	case len(n.Content) > maxTrains:
		p.say(n, "%s has %d trains: at most %d", what, len(n.Content), maxTrains)
		return nil
	}
	seen := make(map[string]int)
	for i, c := range n.Content {
		at := fmt.Sprintf("%s[%d]", what, i)
		plan := p.train(c, at)
		if plan.Name == "" {
			continue
		}
		key := strings.ToLower(plan.Name)
		if first, twice := seen[key]; twice {
			p.say(c, "%s: the queue has a train %s already, at line %d: name it otherwise", at, quoted(plan.Name), first)
		}
		seen[key] = c.Line
		plans = append(plans, plan)
	}
	return plans
}

func (p *repositoryParser) train(n *yaml.Node, what string) (plan bot.TrainPlan) {
	const example = "0 9 * * MON-FRI"
	var name, schedule, seats, boarding *yaml.Node
	known := true
	ok := p.mapping(n, what, map[string]func(*yaml.Node){
		"name":     func(n *yaml.Node) { name, plan.Name = n, p.trainName(n, what+".name") },
		"schedule": func(n *yaml.Node) { schedule = n },
		"time_zone": func(n *yaml.Node) {
			if text, ok := p.text(n, what+".time_zone"); ok {
				plan.TimeZone, known = text, p.zone(n, what+".time_zone", text)
			}
		},
		"seats": func(n *yaml.Node) { seats, plan.Seats = n, p.number(n, what+".seats", 0, bot.MaxSeats) },
		"boarding_closes": func(n *yaml.Node) {
			boarding, plan.BoardingCloses = n, p.duration(n, what+".boarding_closes", 0, maxBoarding)
		},
	})
	if !ok {
		return plan
	}
	if name == nil {
		p.say(n, "%s: name is missing: people join the train by it, as in name: nightly", what)
	}
	if seats == nil {
		p.say(n, "%s: seats is missing: say how many merge requests may depart, as in seats: 10", what)
	}
	if schedule == nil {
		p.say(n, "%s: schedule is missing: say when the train departs, as in schedule: %q", what, example)
		return plan
	}
	text, ok := p.text(schedule, what+".schedule")
	if !ok || !known {
		return plan
	}
	plan.Schedule = text
	if strings.Contains(text, "=") {
		p.say(schedule, "%s.schedule: %s holds more than the five fields: the zone goes into time_zone", what, quoted(text))
		return plan
	}
	// A day matches by day of month or day of week where both are given, as everywhere cron is.
	times, err := cron.MustNewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.DowOrDom).Parse(text)
	if err != nil {
		p.say(schedule, "%s.schedule: %s is not a minute, hour, day of month, month and day of week, such as %q: %s",
			what, quoted(text), example, strings.ToValidUTF8(err.Error(), "?"))
		return plan
	}
	// Any years will do, as long as they are always the same: a file is right or wrong, whenever it is read. In UTC no clock is put back.
	last := times.Next(time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC))
	if last.IsZero() {
		p.say(schedule, "%s.schedule: %s names a day that never comes", what, quoted(text))
		return plan
	}
	// A week is the most, so a year shows enough; and of a year no more than so many, since reading a file is to cost little.
	for i := 0; i < 400 && boarding != nil && last.Year() == 2024; i++ {
		next := times.Next(last)
		if !next.IsZero() && next.Sub(last) <= plan.BoardingCloses {
			p.say(boarding, "%s.boarding_closes: %s before a departure that may be only %s after the last one: nobody could ever board, write less",
				what, short(plan.BoardingCloses), short(next.Sub(last)))
			break
		}
		last = next
	}
	return plan
}

// trainName reads a name that can be typed behind a command.
func (p *repositoryParser) trainName(n *yaml.Node, what string) string {
	name, ok := p.text(n, what)
	switch {
	case !ok:
	case len(name) > bot.MaxTrainName:
		p.say(n, "%s: %s is longer than %d bytes", what, quoted(name), bot.MaxTrainName)
	case !bot.IsTrainName(name):
		p.say(n, "%s: %s is not one word of letters, digits and . _ -, beginning with a letter or digit", what, quoted(name))
	default:
		return name
	}
	return ""
}

// zone looks for a time zone.
func (p *repositoryParser) zone(n *yaml.Node, what, name string) (known bool) {
	_, err := time.LoadLocation(name)
	if err != nil || name == "Local" { // that of whichever server reads the file
		p.say(n, "%s: %s is not a time zone: write a name such as Europe/Berlin or UTC", what, quoted(name))
		return false
	}
	return true
}
