package cronjob

import (
	"math"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// The latest start up to now, of schedules of all kinds, is the one that the
// schedule itself names.
func TestLookBack(t *testing.T) {
	tests := []struct {
		name           string
		schedule, zone string
		since, now     string // since is the last start
		deadline       *int64
		last           string // empty for none
		count          int64
	}{
		{name: "none yet", schedule: "0 * * * *", since: "2026-05-01T10:00:00Z", now: "2026-05-01T10:59:59Z"},
		{name: "just now", schedule: "0 * * * *", since: "2026-05-01T10:00:00Z", now: "2026-05-01T11:00:00Z", last: "2026-05-01T11:00:00Z"},
		{name: "one", schedule: "0 * * * *", since: "2026-05-01T10:00:00Z", now: "2026-05-01T11:30:00Z", last: "2026-05-01T11:00:00Z"},
		{name: "two", schedule: "0 * * * *", since: "2026-05-01T10:00:00Z", now: "2026-05-01T12:30:00Z", last: "2026-05-01T12:00:00Z", count: 2},
		{name: "a hundred", schedule: "0 * * * *", since: "2026-05-01T00:00:00Z", now: "2026-05-05T04:30:00Z", last: "2026-05-05T04:00:00Z", count: 100},
		{name: "and one", schedule: "0 * * * *", since: "2026-05-01T00:00:00Z", now: "2026-05-05T05:30:00Z", last: "2026-05-05T05:00:00Z", count: 101},
		{name: "every hour from the last", schedule: "@every 1h", since: "2026-05-01T00:20:00Z", now: "2026-05-01T07:00:00Z", last: "2026-05-01T06:20:00Z", count: 6},
		{name: "irregular hours", schedule: "30 6-16/4 * * 1-5", since: "2026-05-01T14:30:00Z", now: "2026-05-05T15:00:00Z", last: "2026-05-05T14:30:00Z", count: 9},
		{name: "no further back than the deadline", schedule: "0 * * * *", since: "2026-05-01T00:00:00Z", now: "2026-05-05T04:30:00Z", deadline: ptr.To[int64](3600), last: "2026-05-05T04:00:00Z"},
		{name: "a deadline of a thousand years", schedule: "0 * * * *", since: "2026-05-01T10:00:00Z", now: "2026-05-01T12:30:00Z", deadline: ptr.To[int64](math.MaxInt64), last: "2026-05-01T12:00:00Z", count: 2},
		{name: "in another zone", schedule: "0 9 * * *", zone: "Asia/Kolkata", since: "2026-05-01T04:00:00Z", now: "2026-05-02T03:30:00Z", last: "2026-05-02T03:30:00Z"},
		{name: "an hour that spring leaves out", schedule: "30 2 * * *", zone: "America/New_York", since: "2026-03-07T07:30:00Z", now: "2026-03-09T06:00:00Z"},
		{name: "and the day after", schedule: "30 2 * * *", zone: "America/New_York", since: "2026-03-07T07:30:00Z", now: "2026-03-09T06:30:00Z", last: "2026-03-09T06:30:00Z"},
		{name: "an hour that autumn has twice, first", schedule: "30 1 * * *", zone: "America/New_York", since: "2026-10-31T05:30:00Z", now: "2026-11-01T05:45:00Z", last: "2026-11-01T05:30:00Z"},
		{name: "and then", schedule: "30 1 * * *", zone: "America/New_York", since: "2026-11-01T05:30:00Z", now: "2026-11-01T06:45:00Z", last: "2026-11-01T06:30:00Z"},
		{name: "a zone that moves by half an hour", schedule: "15 2 * * *", zone: "Australia/Lord_Howe", since: "2026-10-02T15:45:00Z", now: "2026-10-05T00:00:00Z", last: "2026-10-04T15:15:00Z"},
		{name: "a clock that was set back", schedule: "0 * * * *", since: "2027-05-01T10:00:00Z", now: "2026-05-01T12:30:00Z"},
		{name: "half a million", schedule: "* * * * *", since: "2025-05-01T00:00:00Z", now: "2026-05-01T00:00:30Z", last: "2026-05-01T00:00:00Z", count: 525600},
		{name: "since the year one", schedule: "* * * * *", since: "0001-01-01T00:00:00Z", now: "2026-05-01T00:00:30Z", last: "2026-05-01T00:00:00Z", count: 1065219840},
		{name: "a month of minutes in a year", schedule: "* * * 1 *", since: "1990-01-31T23:58:00Z", now: "2026-05-01T00:00:30Z", last: "2026-01-31T23:59:00Z", count: 40},
		{name: "each second for a year", schedule: "@every 1ns", since: "2025-05-01T00:00:00Z", now: "2026-05-01T00:00:00Z", last: "2026-05-01T00:00:00Z", count: 31536000},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cj := cronJob(func(cj *batchv1.CronJob) {
				cj.Spec.Schedule, cj.Spec.StartingDeadlineSeconds = tt.schedule, tt.deadline
				cj.Status.LastScheduleTime = stamp(tt.since)
				if tt.zone != "" {
					cj.Spec.TimeZone = &tt.zone
				}
			})
			schedule, err := parse(&cj.Spec)
			if err != nil {
				t.Fatal(err)
			}
			m, err := lookBack(cj, at(tt.now), schedule, true)
			if err != nil {
				t.Fatal(err)
			}
			if got := m.last; tt.last == "" && !got.IsZero() || tt.last != "" && !got.Equal(at(tt.last)) {
				t.Errorf("the last start is %v, want %q", got.UTC(), tt.last)
			}
			if m.count != tt.count {
				t.Errorf("counted %d missed starts, want %d", m.count, tt.count)
			}
			if wait := untilNext(cj, at(tt.now), schedule); wait <= 0 {
				t.Errorf("the next start is waited for %v", wait)
			}
		})
	}
}

// A schedule without starts is an error, and is waited for without haste.
func TestNever(t *testing.T) {
	for _, tt := range []struct {
		schedule string
		now      string
	}{{"0 0 30 2 *", "2026-05-01T00:00:30Z"}, {"59 23 31 4,6,9,11 *", "2026-05-01T00:00:30Z"}, {"0 0 29 2 *", "2096-03-01T00:00:00Z"}} {
		cj := cronJob(func(cj *batchv1.CronJob) {
			cj.Spec.Schedule, cj.CreationTimestamp = tt.schedule, metav1.NewTime(at(tt.now))
		})
		schedule, err := parse(&cj.Spec)
		if err != nil {
			t.Fatal(err)
		}
		if m, err := lookBack(cj, at(tt.now), schedule, true); err == nil || !m.last.IsZero() {
			t.Errorf("%s has the start %v, error %v", tt.schedule, m.last, err)
		}
		if wait := untilNext(cj, at(tt.now), schedule); wait != farOff {
			t.Errorf("%s is looked at after %v", tt.schedule, wait)
		}
	}
}

// Zones come from the field or the schedule. What is none stays an error, and no
// text ends the process.
func TestParse(t *testing.T) {
	for _, tt := range []struct {
		schedule, zone string
		next           string // after 2026-05-01T00:00:00Z
		fault          string
	}{
		{schedule: "0 9 * * *", next: "2026-05-01T09:00:00Z"},
		{schedule: "0 9 * * *", zone: "Europe/Berlin", next: "2026-05-01T07:00:00Z"},
		{schedule: "TZ=Europe/Berlin 0 9 * * *", next: "2026-05-01T07:00:00Z"},
		{schedule: "CRON_TZ=Europe/Berlin 0 9 * * *", zone: "Asia/Tokyo", next: "2026-05-01T07:00:00Z"},
		{schedule: "0 9 * * *", zone: "Mars/Olympus", next: "2026-05-01T09:00:00Z"},
		{schedule: "0 9 * * *", zone: "../../etc/passwd", next: "2026-05-01T09:00:00Z"},
		{schedule: "0 9 * * *", zone: "/etc/localtime", next: "2026-05-01T09:00:00Z"},
		{schedule: "0 9 * * *", zone: "Etc/UTC 0 0 1 1 *", next: "2026-05-01T09:00:00Z"},
		{schedule: "@daily", next: "2026-05-02T00:00:00Z"},
		{schedule: "TZ=0", fault: "invalid schedule format"},
		{schedule: "CRON_TZ=", fault: "invalid schedule format"},
		{schedule: "TZ=../../etc/passwd * * * * *", fault: "provided bad location"},
		{schedule: "TZ=" + strings.Repeat("A/", 10000) + " * * * * *", fault: "provided bad location"},
		{schedule: "", fault: "empty spec string"},
		{schedule: "61 * * * *", fault: "above maximum"},
		{schedule: "* * * * * *", fault: "expected exactly 5 fields"},
		{schedule: "1-99999999999999999999 * * * *", fault: "failed to parse"},
		{schedule: "@every x", fault: "failed to parse duration"},
	} {
		cj := cronJob(func(cj *batchv1.CronJob) {
			cj.Spec.Schedule = tt.schedule
			if tt.zone != "" {
				cj.Spec.TimeZone = &tt.zone
			}
		})
		schedule, err := parse(&cj.Spec)
		switch {
		case tt.fault != "":
			if err == nil || !strings.Contains(err.Error(), tt.fault) {
				t.Errorf("%.40q: error %v, want %q", tt.schedule, err, tt.fault)
			}
		case err != nil:
			t.Errorf("%q in %q: %v", tt.schedule, tt.zone, err)
		default:
			if got := schedule.Next(at("2026-05-01T00:00:00Z")); !got.Equal(at(tt.next)) {
				t.Errorf("%q in %q: next at %v, want %s", tt.schedule, tt.zone, got.UTC(), tt.next)
			}
		}
	}
}

// The next start is waited for 100 ms longer than the clock says.
func TestUntilNext(t *testing.T) {
	cj := cronJob(func(cj *batchv1.CronJob) { cj.Status.LastScheduleTime = stamp("2026-05-01T10:00:00Z") })
	schedule, err := parse(&cj.Spec)
	if err != nil {
		t.Fatal(err)
	}
	for now, want := range map[string]time.Duration{
		"2026-05-01T10:00:01Z": time.Hour - time.Second + padding,
		"2026-05-01T11:30:00Z": 30*time.Minute + padding,
		"2026-05-03T11:59:59Z": time.Second + padding,
	} {
		if got := untilNext(cj, at(now), schedule); got != want {
			t.Errorf("at %s: wait %v, want %v", now, got, want)
		}
	}
}
