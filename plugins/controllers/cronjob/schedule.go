package cronjob

import (
	"errors"
	"fmt"
	"strings"
	"time"
	_ "time/tzdata" // zones, where the process sees no data base of them

	"github.com/robfig/cron/v3"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/utils/ptr"
)

const (
	// padding is how long after a start it is looked for, so that a clock that is a
	// little behind does not miss it.
	padding = 100 * time.Millisecond
	// manyStarts is how many missed starts are more than an event goes without.
	manyStarts = 100
	// farOff is waited for a start that lies beyond what the schedule is searched
	// for, which is five years.
	farOff = 24 * time.Hour
)

var errInterval = errors.New("time difference between two schedules is less than 1 second")

// hasZone says whether the schedule itself names a time zone.
func hasZone(schedule string) bool { return strings.Contains(schedule, "TZ") }

// parse reads the schedule in the zone of the spec. A zone in the schedule itself
// wins, and one that is not known counts as none.
func parse(spec *batchv1.CronJobSpec) (schedule cron.Schedule, err error) {
	// The parser panics on a zone without a space after it, such as "TZ=0".
	defer func() {
		if p := recover(); p != nil {
			schedule, err = nil, fmt.Errorf("invalid schedule format: %v", p)
		}
	}()
	text := spec.Schedule
	if spec.TimeZone != nil && !hasZone(text) {
		if _, err := time.LoadLocation(*spec.TimeZone); err == nil {
			text = "TZ=" + *spec.TimeZone + " " + text
		}
	}
	return cron.ParseStandard(text)
}

// missed is what of a schedule lies behind.
type missed struct {
	since time.Time // what was looked from
	last  time.Time // the latest start up to now; zero if there is none
	count int64     // how many starts there were, roughly
}

// lookBack finds the latest start since the last one that was made, or since the
// creation. With bounded set it looks back no further than the starting deadline.
func lookBack(cj *batchv1.CronJob, now time.Time, schedule cron.Schedule, bounded bool) (missed, error) {
	m := missed{since: cj.CreationTimestamp.Time}
	if t := cj.Status.LastScheduleTime; t != nil {
		m.since = t.Time
	}
	if d := cj.Spec.StartingDeadlineSeconds; bounded && d != nil {
		if deadline := before(now, *d); deadline.After(m.since) {
			m.since = deadline
		}
	}
	first := schedule.Next(m.since)
	if first.IsZero() { // of a day that never comes, such as 30 February
		return m, errInterval
	}
	second := schedule.Next(first)
	switch {
	case now.Before(first):
		return m, nil
	case now.Before(second):
		m.last = first
		return m, nil
	}
	interval := int64(second.Sub(first).Round(time.Second) / time.Second)
	if interval < 1 {
		return m, errInterval
	}
	// The first interval stands for all: half a million starts are not counted one
	// by one. Two intervals before now the schedule is asked again, which also keeps
	// the starts of "@every" in step. Seconds are counted as integers, since a
	// Duration holds no more than 292 years.
	m.count = (now.Unix()-first.Unix())/interval + 1
	from := time.Unix(first.Unix()+(m.count-2)*interval, int64(first.Nanosecond())).In(first.Location())
	for t := schedule.Next(from); !t.IsZero() && !t.After(now); t = schedule.Next(t) {
		m.last = t
	}
	return m, nil
}

// before is t less the seconds, of which there may be more than a Duration holds.
func before(t time.Time, seconds int64) time.Time {
	const century = 100 * 365 * 24 * 60 * 60
	if seconds > century {
		return time.Time{}
	}
	return t.Add(-time.Duration(seconds) * time.Second)
}

// untilNext is how long to wait for the start after the latest. It is negative
// for one that is past.
func untilNext(cj *batchv1.CronJob, now time.Time, schedule cron.Schedule) time.Duration {
	m, err := lookBack(cj, now, schedule, false)
	from := m.last
	switch {
	case err != nil, m.last.IsZero() && m.count > 0:
		from = now
	case m.last.IsZero():
		from = m.since
	}
	next := schedule.Next(from)
	if next.IsZero() {
		return farOff
	}
	return next.Add(padding).Sub(now)
}

// jobName ends in the minutes from 1970 to the start: no start has two Jobs.
func jobName(cj *batchv1.CronJob, start time.Time) string {
	return fmt.Sprintf("%s-%d", cj.Name, start.Unix()/60)
}

// zone is the time zone of the spec; without one it is UTC.
func zone(cj *batchv1.CronJob) (*time.Location, error) {
	return time.LoadLocation(ptr.Deref(cj.Spec.TimeZone, ""))
}
