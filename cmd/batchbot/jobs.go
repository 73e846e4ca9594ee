package main

import (
	"context"
	"fmt"
	"time"

	"github.com/batchbot/batchbot/bot/job"
	"github.com/batchbot/batchbot/config"
)

// schedules are the scheduled jobs in the order in which they are shown, with nothing to run yet.
func schedules(settings config.Settings) ([]job.Job, error) {
	jobs := []job.Job{{Name: "sweep"}, {Name: "reconcile"}, {Name: "trains"}, {Name: "cleanup"}, {Name: "reminders"}}
	texts := map[string]string{
		"sweep": settings.Jobs.Sweep, "trains": settings.Jobs.Trains, "cleanup": settings.Jobs.Cleanup, "reminders": settings.Jobs.Reminders,
	}
	for i := range jobs {
		j := &jobs[i]
		text, given := texts[j.Name]
		if !given {
			if every := settings.Reconcile.Interval; every > 0 {
				// Before the first look at the hosts it would report every repository as one that it does not know.
				j.Schedule, j.Limit, j.Patient = job.Every(every), max(every, time.Minute), true
			}
			continue
		}
		var err error
		if j.Schedule, err = job.ParseSchedule(text); err != nil {
			return nil, fmt.Errorf("jobs.%s: %w", j.Name, err)
		}
	}
	return jobs, nil
}

// jobs are the scheduled jobs.
func (p *program) jobs() ([]job.Job, error) {
	jobs, err := schedules(p.settings)
	if err != nil {
		return nil, err
	}
	work := map[string]func(context.Context) (string, error){
		"sweep":     job.Sweep(p.store, p.driver.Drive),
		"reconcile": p.reconciler.Run,
		"trains": func(ctx context.Context) (string, error) {
			result, err := p.trains.Tick(ctx)
			return result.String(), err
		},
		"cleanup":   job.Cleanup(p.store, p.sender.Nudge),
		"reminders": job.Remind(p.store, p.sender.Nudge),
	}
	for i := range jobs {
		jobs[i].Run = work[jobs[i].Name]
	}
	return jobs, nil
}
