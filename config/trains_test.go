package config

import (
	"reflect"
	"testing"
	"time"

	"github.com/batchbot/batchbot/bot"
)

func TestTrainsOfAQueue(t *testing.T) {
	t.Parallel()
	got, err := ParseRepositoryFile([]byte(`
queues:
  - branch: main
    trains:
      - name: nightly
        schedule: "30 22 * * MON-FRI"
        time_zone: America/New_York
        seats: 12
        boarding_closes: 30m
      - {name: late, schedule: "30 2 * * *", time_zone: Europe/Berlin, seats: 1, boarding_closes: 2h} # half past two comes twice once a year
      - {name: Release-1.x, schedule: "0 9 1 * *", seats: 0}
`), "main")
	if err != nil {
		t.Fatal(err)
	}
	want := []bot.TrainPlan{
		{Name: "nightly", Schedule: "30 22 * * MON-FRI", TimeZone: "America/New_York", Seats: 12, BoardingCloses: 30 * time.Minute},
		{Name: "late", Schedule: "30 2 * * *", TimeZone: "Europe/Berlin", Seats: 1, BoardingCloses: 2 * time.Hour},
		{Name: "Release-1.x", Schedule: "0 9 1 * *"},
	}
	if !reflect.DeepEqual(got.Queues[0].Trains, want) {
		t.Errorf("got  %+v\nwant %+v", got.Queues[0].Trains, want)
	}
}

func TestMistakesInTrains(t *testing.T) {
	t.Parallel()
	train := func(text string) string { return "queues:\n  - branch: main\n    trains:\n      - " + text + "\n" }
	const where = "queues[0].trains[0]"
	for name, test := range map[string]struct{ file, want string }{
		"not a list":       {"queues:\n  - branch: main\n    trains: nightly\n", "line 3, column 13: queues[0].trains is not a list: write each train below it, as in - name: nightly"},
		"not keys":         {train("nightly"), "line 4, column 9: " + where + " is not a set of keys: write any of boarding_closes, name, schedule, seats or time_zone, each with a colon and its value"},
		"unknown key":      {train(`{name: a, schedule: "0 9 * * *", seats: 1, seat: 2}`), `line 4, column 52: ` + where + `: unknown key "seat": did you mean seats?`},
		"no name":          {train(`{schedule: "0 9 * * *", seats: 1}`), "line 4, column 9: " + where + ": name is missing: people join the train by it, as in name: nightly"},
		"no seats":         {train(`{name: a, schedule: "0 9 * * *"}`), "line 4, column 9: " + where + ": seats is missing: say how many merge requests may depart, as in seats: 10"},
		"no schedule":      {train("{name: a, seats: 1}"), "line 4, column 9: " + where + `: schedule is missing: say when the train departs, as in schedule: "0 9 * * MON-FRI"`},
		"two words":        {train(`{name: a b, schedule: "0 9 * * *", seats: 1}`), `line 4, column 16: ` + where + `.name: "a b" is not one word of letters, digits and . _ -, beginning with a letter or digit`},
		"an option":        {train(`{name: --all, schedule: "0 9 * * *", seats: 1}`), `line 4, column 16: ` + where + `.name: "--all" is not one word of letters, digits and . _ -, beginning with a letter or digit`},
		"too many seats":   {train(`{name: a, schedule: "0 9 * * *", seats: 1001}`), "line 4, column 49: " + where + ".seats: 1001 is out of range: write 0 to 1000"},
		"four fields":      {train(`{name: a, schedule: "0 9 * *", seats: 1}`), "line 4, column 29: " + where + `.schedule: "0 9 * *" is not a minute, hour, day of month, month and day of week, such as "0 9 * * MON-FRI": expected exactly 5 fields, found 4: [0 9 * *]`},
		"hour 25":          {train(`{name: a, schedule: "0 25 * * *", seats: 1}`), "line 4, column 29: " + where + `.schedule: "0 25 * * *" is not a minute, hour, day of month, month and day of week, such as "0 9 * * MON-FRI": end of range (25) above maximum (23): "25"`},
		"a descriptor":     {train(`{name: a, schedule: "@daily", seats: 1}`), "line 4, column 29: " + where + `.schedule: "@daily" is not a minute, hour, day of month, month and day of week, such as "0 9 * * MON-FRI": parser does not accept descriptors: "@daily"`},
		"zone in schedule": {train(`{name: a, schedule: "TZ=UTC 0 9 * * *", seats: 1}`), "line 4, column 29: " + where + `.schedule: "TZ=UTC 0 9 * * *" holds more than the five fields: the zone goes into time_zone`},
		"never":            {train(`{name: a, schedule: "0 9 30 2 *", seats: 1}`), "line 4, column 29: " + where + `.schedule: "0 9 30 2 *" names a day that never comes`},
		"unknown zone":     {train(`{name: a, schedule: "0 9 * * *", time_zone: Berlin, seats: 1}`), "line 4, column 53: " + where + `.time_zone: "Berlin" is not a time zone: write a name such as Europe/Berlin or UTC`},
		"the server's":     {train(`{name: a, schedule: "0 9 * * *", time_zone: Local, seats: 1}`), "line 4, column 53: " + where + `.time_zone: "Local" is not a time zone: write a name such as Europe/Berlin or UTC`},
		"closed for good":  {train(`{name: a, schedule: "0 9 * * *", boarding_closes: 24h, seats: 1}`), "line 4, column 59: " + where + ".boarding_closes: 24h before a departure that may be only 24h after the last one: nobody could ever board, write less"},
		"closes too early": {train(`{name: a, schedule: "0 9 1 * *", boarding_closes: 169h, seats: 1}`), "line 4, column 59: " + where + ".boarding_closes: 169h is out of range: write 0 to 168h"},
		"the same name":    {train("{name: a, schedule: 0 9 * * *, seats: 1}\n      - {name: A, schedule: 0 9 * * *, seats: 1}"), `line 5, column 9: queues[0].trains[1]: the queue has a train "A" already, at line 4: name it otherwise`},
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
