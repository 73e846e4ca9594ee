package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/bot/train"
	"github.com/batchbot/batchbot/store"
)

func (s shell) trainCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "train",
		Short: "List, create, change and cancel trains",
		Long: `Lists, creates, changes and cancels departures with limited seats (docs/trains.md). The commands work on the database, so they may run anywhere that
reaches it, whether a server is running or not. Times are written as 2026-12-31T22:30:00Z or, elsewhere, 2026-12-31T22:30:00+01:00.`,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	file := c.PersistentFlags().String("config", "batchbot.yml", "settings `FILE`; batchbot.example.yml explains every key")
	c.AddCommand(s.trainListCommand(file), s.trainShowCommand(file), s.trainCreateCommand(file), s.trainChangeCommand(file), s.trainCancelCommand(file))
	return c
}

func (s shell) trainListCommand(file *string) *cobra.Command {
	c := &cobra.Command{
		Use: "list [QUEUE]", Short: "Show open trains, the newest first",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usageError{fmt.Errorf("%s wants one queue at most, OWNER/NAME:BRANCH: `batchbot queue list` shows their names", c.CommandPath())}
			}
			return nil
		},
	}
	all := c.Flags().Bool("all", false, "those that departed or were cancelled, too")
	limit := c.Flags().Int("limit", 20, "at most `N` trains")
	asJSON := c.Flags().Bool("json", false, "print one JSON array")
	c.RunE = func(c *cobra.Command, args []string) error {
		if *limit < 1 {
			return usageError{fmt.Errorf("--limit %d: 1 or more trains can be listed", *limit)}
		}
		return s.withStore(c.Context(), *file, func(db *store.Store) error {
			return s.trainList(c.Context(), db, strings.Join(args, ""), bot.TrainFilter{Open: !*all, Limit: *limit}, *asJSON)
		})
	}
	return c
}

func (s shell) trainShowCommand(file *string) *cobra.Command {
	c := &cobra.Command{Use: "show TRAIN", Short: "Show a train and who is on it", Args: oneTrain}
	asJSON := c.Flags().Bool("json", false, "print one JSON object")
	c.RunE = func(c *cobra.Command, args []string) error {
		return s.withTrain(c, *file, args, func(_ *train.Keeper, view bot.TrainView) error { return s.trainShow(view, *asJSON) })
	}
	return c
}

func (s shell) trainCreateCommand(file *string) *cobra.Command {
	c := &cobra.Command{
		Use: "create QUEUE NAME --departs TIME --seats N", Short: "Open a train that departs once",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) != 2 {
				return usageError{fmt.Errorf("%s wants a queue, OWNER/NAME:BRANCH, and a name for the train", c.CommandPath())}
			}
			return nil
		},
	}
	departs := c.Flags().String("departs", "", "`TIME` of departure")
	closes := c.Flags().String("closes", "", "`TIME` at which boarding ends; with the departure if left out")
	seats := c.Flags().Int("seats", 0, "`N` merge requests may depart")
	asJSON := c.Flags().Bool("json", false, "print one JSON object")
	c.RunE = func(c *cobra.Command, args []string) error {
		if *departs == "" || !c.Flags().Changed("seats") {
			return usageError{fmt.Errorf("%s wants --departs TIME and --seats N", c.CommandPath())}
		}
		spec := bot.TrainSpec{Name: args[1], Seats: *seats, By: operatorName(), Source: "cli"}
		var err error
		if spec.DepartsAt, spec.ClosesAt, err = times(*departs, *closes); err != nil {
			return err
		}
		return s.withQueue(c.Context(), *file, args[0], func(db *store.Store, q bot.QueueOverview) error {
			spec.QueueID = q.Queue.ID
			result, refusal, err := train.New(train.Config{Store: db}).Create(c.Context(), spec)
			return s.trainWritten(result, refusal, err, "opened", *asJSON)
		})
	}
	return c
}

func (s shell) trainChangeCommand(file *string) *cobra.Command {
	c := &cobra.Command{
		Use: "change TRAIN", Short: "Change the seats or the time of an open train", Args: oneTrain,
		Long: `Changes an open train. More seats are given to those in line, in their order; fewer take nobody's seat away: what is given up is not filled
again until the number is reached. A train that followed a schedule does not any more, the one after it does.`,
	}
	departs := c.Flags().String("departs", "", "`TIME` of departure")
	closes := c.Flags().String("closes", "", "`TIME` at which boarding ends; as long before the departure as now if left out")
	seats := c.Flags().Int("seats", 0, "`N` merge requests may depart")
	asJSON := c.Flags().Bool("json", false, "print one JSON object")
	c.RunE = func(c *cobra.Command, args []string) error {
		change := bot.TrainChange{By: operatorName(), Source: "cli"}
		var err error
		if change.DepartsAt, change.ClosesAt, err = times(*departs, *closes); err != nil {
			return err
		}
		if c.Flags().Changed("seats") {
			change.Seats = seats
		}
		return s.changeTrain(c, *file, args, change, "changed", *asJSON)
	}
	return c
}

func (s shell) trainCancelCommand(file *string) *cobra.Command {
	c := &cobra.Command{
		Use: "cancel TRAIN", Short: "Cancel an open train: everybody on it and in line is let go", Args: oneTrain,
		Long: `Cancels an open train. Its merge requests are cancelled and told so. Where the train follows a schedule, the departure after it is opened.`,
	}
	asJSON := c.Flags().Bool("json", false, "print one JSON object")
	c.RunE = func(c *cobra.Command, args []string) error {
		return s.changeTrain(c, *file, args, bot.TrainChange{Cancel: true, By: operatorName(), Source: "cli"}, "cancelled", *asJSON)
	}
	return c
}

// oneTrain demands exactly one train's number.
func oneTrain(c *cobra.Command, args []string) error {
	if len(args) == 1 {
		if id, err := strconv.ParseInt(args[0], 10, 64); err == nil && id > 0 {
			return nil
		}
	}
	return usageError{fmt.Errorf("%s wants the number of one train: `batchbot train list` shows them", c.CommandPath())}
}

// withTrain reads a train by its number for do.
func (s shell) withTrain(c *cobra.Command, file string, args []string, do func(*train.Keeper, bot.TrainView) error) error {
	id, err := strconv.ParseInt(args[0], 10, 64)
	if err != nil {
		return err
	}
	return s.withStore(c.Context(), file, func(db *store.Store) error {
		view, err := db.ReadTrain(c.Context(), id)
		if errors.Is(err, store.ErrMissing) {
			return fmt.Errorf("no train %d: `batchbot train list --all` shows their numbers", id)
		}
		if err != nil {
			return err
		}
		return do(train.New(train.Config{Store: db}), view)
	})
}

func (s shell) changeTrain(c *cobra.Command, file string, args []string, change bot.TrainChange, done string, asJSON bool) error {
	return s.withTrain(c, file, args, func(keeper *train.Keeper, view bot.TrainView) error {
		change.TrainID = view.Train.ID
		result, refusal, err := keeper.Change(c.Context(), change)
		return s.trainWritten(result, refusal, err, done, asJSON)
	})
}

// times reads the times of a departure; one that is left out is the zero time.
func times(departs, closes string) (departsAt, closesAt time.Time, err error) {
	for _, t := range []struct {
		flag, text string
		into       *time.Time
	}{{"--departs", departs, &departsAt}, {"--closes", closes, &closesAt}} {
		if t.text == "" {
			continue
		}
		if *t.into, err = time.Parse(time.RFC3339, t.text); err != nil {
			return departsAt, closesAt, usageError{fmt.Errorf("%s %s is not a time: write it as 2026-12-31T22:30:00Z or 2026-12-31T22:30:00+01:00", t.flag, t.text)}
		}
	}
	return departsAt, closesAt, nil
}

// trainLine is one train as `train list --json` prints it.
type trainLine struct {
	ID        int64  `json:"id"`
	Queue     string `json:"queue,omitempty"`
	Name      string `json:"name"`
	Status    string `json:"status"`
	Scheduled bool   `json:"scheduled"` // follows the schedule in the repository file
	Departs   string `json:"departs"`
	Closes    string `json:"closes"` // end of boarding
	Seats     int    `json:"seats"`
	Confirmed int    `json:"confirmed"`
	Waiting   int    `json:"waiting"`
	Promoted  []int  `json:"promoted,omitempty"` // merge requests that moved up by this change
}

func lineOfTrain(t bot.Train, queue string) trainLine {
	return trainLine{
		ID: t.ID, Queue: queue, Name: t.Name, Status: t.Status.String(), Scheduled: t.Scheduled, Departs: t.DepartsAt.UTC().Format(time.RFC3339),
		Closes: t.ClosesAt.UTC().Format(time.RFC3339), Seats: t.Seats, Confirmed: t.Confirmed, Waiting: t.Waiting,
	}
}

func (s shell) trainWritten(result bot.TrainResult, refusal string, err error, done string, asJSON bool) error {
	switch {
	case err != nil:
		return err
	case refusal != "":
		return errors.New(refusal)
	}
	line := lineOfTrain(result.Train, "")
	for _, seat := range result.Promoted {
		line.Promoted = append(line.Promoted, seat.Number)
	}
	if asJSON {
		return printJSON(s.stdout, line)
	}
	fmt.Fprintf(s.stdout, "train %d, %s, is %s: departs %s with %d seats, %d taken, %d in line", line.ID, line.Name, done, line.Departs, line.Seats, line.Confirmed, line.Waiting)
	if n := len(line.Promoted); n > 0 {
		fmt.Fprintf(s.stdout, ", %d moved up", n)
	}
	fmt.Fprintln(s.stdout)
	return nil
}

func (s shell) trainList(ctx context.Context, db *store.Store, queue string, filter bot.TrainFilter, asJSON bool) error {
	if queue != "" {
		queues, err := db.ListQueues(ctx)
		if err != nil {
			return err
		}
		q, err := findQueue(queues, queue)
		if err != nil {
			return err
		}
		filter.QueueID = q.Queue.ID
	}
	list, err := db.Trains(ctx, filter)
	if err != nil {
		return err
	}
	lines := make([]trainLine, 0, len(list))
	for _, t := range list {
		lines = append(lines, lineOfTrain(t.Train, bot.QueueOverview{Queue: t.Queue, Repository: t.Repository}.Name()))
	}
	if asJSON {
		return printJSON(s.stdout, lines)
	}
	table := tabwriter.NewWriter(s.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "TRAIN\tQUEUE\tNAME\tSTATUS\tDEPARTS\tBOARDING ENDS\tSEATS\tTAKEN\tIN LINE")
	for _, l := range lines {
		fmt.Fprintf(table, "%d\t%s\t%s\t%s\t%s\t%s\t%d\t%d\t%d\n", l.ID, printable(l.Queue), l.Name, l.Status, l.Departs, l.Closes, l.Seats, l.Confirmed, l.Waiting)
	}
	return table.Flush()
}

// seatLine is one seat as `train show --json` prints it.
type seatLine struct {
	MR        int    `json:"mr"`
	Status    string `json:"status"`
	Position  int    `json:"position"` // in line, 1 moves up next; 0: not in line
	Approved  bool   `json:"approved"`
	Operation string `json:"operation"`
}

func (s shell) trainShow(view bot.TrainView, asJSON bool) error {
	shown := struct {
		trainLine
		Riders []seatLine `json:"riders"` // in the order of joining
	}{lineOfTrain(view.Train, bot.QueueOverview{Queue: view.Queue, Repository: view.Repository}.Name()), []seatLine{}}
	for _, seat := range view.Seats {
		shown.Riders = append(shown.Riders, seatLine{MR: seat.Number, Status: seat.Status.String(), Position: seat.Position, Approved: seat.Approved, Operation: seat.OperationID})
	}
	if asJSON {
		return printJSON(s.stdout, shown)
	}
	fmt.Fprintf(s.stdout, "train %d, %s, of %s: %s, departs %s, boarding ends %s, %d seats, %d taken, %d in line\n",
		shown.ID, shown.Name, printable(shown.Queue), shown.Status, shown.Departs, shown.Closes, shown.Seats, shown.Confirmed, shown.Waiting)
	table := tabwriter.NewWriter(s.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "MR\tSEAT\tPOSITION\tAPPROVED\tOPERATION")
	for _, r := range shown.Riders {
		position, approved := "-", "no"
		if r.Position > 0 {
			position = strconv.Itoa(r.Position)
		}
		if r.Approved {
			approved = "yes"
		}
		fmt.Fprintf(table, "%d\t%s\t%s\t%s\t%s\n", r.MR, r.Status, position, approved, r.Operation)
	}
	return table.Flush()
}
