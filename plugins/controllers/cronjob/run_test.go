package cronjob

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"
)

// live is a controller that runs in a bubble of synctest, whose clock starts at
// the turn of the year 2000.
type live struct {
	t      *testing.T
	client *fake.Clientset

	mu    sync.Mutex
	ahead time.Duration // of the wall clock, before the bubble's
}

func startLive(t *testing.T, cj *batchv1.CronJob) *live {
	t.Helper()
	l := &live{t: t, client: fake.NewClientset()}
	l.client.PrependReactor("create", "jobs", func(a k8stesting.Action) (bool, runtime.Object, error) {
		o := a.(k8stesting.CreateAction).GetObject().(*batchv1.Job)
		o.UID, o.CreationTimestamp = types.UID("uid-"+o.Name), metav1.NewTime(l.wall())
		return false, nil, nil
	})
	cj.CreationTimestamp = metav1.NewTime(time.Now())
	if _, err := l.client.BatchV1().CronJobs("default").Create(t.Context(), cj, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	shared := informers.NewSharedInformerFactory(l.client, 0)
	s, err := build(l.client, shared, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	s.wall = l.wall
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	shared.Start(ctx.Done())
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		shared.Shutdown()
	})
	return l
}

func (l *live) wall() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Now().Add(l.ahead)
}

// set puts the wall clock forward, or back.
func (l *live) set(by time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ahead += by
}

// after lets time pass, and returns the starts of all Jobs in the order of their
// names, as the annotation has them.
func (l *live) after(d time.Duration) []string {
	l.t.Helper()
	time.Sleep(d) // of the bubble
	synctest.Wait()
	list, err := l.client.BatchV1().Jobs("default").List(l.t.Context(), metav1.ListOptions{})
	if err != nil {
		l.t.Fatal(err)
	}
	var starts []string
	for _, j := range list.Items {
		starts = append(starts, j.Annotations[batchv1.CronJobScheduledTimestampAnnotation])
	}
	slices.Sort(starts)
	return starts
}

func (l *live) change(change func(*batchv1.CronJob)) {
	l.t.Helper()
	cj, err := l.client.BatchV1().CronJobs("default").Get(l.t.Context(), "tick", metav1.GetOptions{})
	if err != nil {
		l.t.Fatal(err)
	}
	change(cj)
	if _, err := l.client.BatchV1().CronJobs("default").Update(l.t.Context(), cj, metav1.UpdateOptions{}); err != nil {
		l.t.Fatal(err)
	}
}

func (l *live) want(got []string, want ...string) {
	l.t.Helper()
	if !slices.Equal(got, want) {
		l.t.Errorf("starts\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func daily(schedule, zone string) *batchv1.CronJob {
	return cronJob(func(cj *batchv1.CronJob) {
		cj.Spec.Schedule, cj.Spec.TimeZone = schedule, ptr.To(zone)
	})
}

// Jobs are made when the schedule says so, one each.
func TestTicks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := startLive(t, daily("*/5 * * * *", "Etc/UTC"))
		l.want(l.after(4*time.Minute + 59*time.Second))
		l.want(l.after(10*time.Minute+2*time.Second), "2000-01-01T00:05:00Z", "2000-01-01T00:10:00Z", "2000-01-01T00:15:00Z")
	})
}

// Another zone or schedule counts from the moment it is written.
func TestChangeOfZoneAndSchedule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := startLive(t, daily("0 6 * * *", "Asia/Kolkata"))
		l.want(l.after(time.Hour), "2000-01-01T06:00:00+05:30")
		l.change(func(cj *batchv1.CronJob) { cj.Spec.TimeZone = ptr.To("Europe/Berlin") })
		l.want(l.after(3*time.Hour+59*time.Minute), "2000-01-01T06:00:00+05:30")
		l.want(l.after(2*time.Minute), "2000-01-01T06:00:00+01:00", "2000-01-01T06:00:00+05:30")
		l.change(func(cj *batchv1.CronJob) { cj.Spec.Schedule = "10 6 * * *" })
		l.want(l.after(10*time.Minute), "2000-01-01T06:00:00+01:00", "2000-01-01T06:00:00+05:30", "2000-01-01T06:10:00+01:00")
		l.change(func(cj *batchv1.CronJob) { cj.Spec.Schedule = "30 6 * * *"; cj.Spec.Suspend = ptr.To(true) })
		l.want(l.after(time.Hour), "2000-01-01T06:00:00+01:00", "2000-01-01T06:00:00+05:30", "2000-01-01T06:10:00+01:00")
		l.change(func(cj *batchv1.CronJob) { cj.Spec.Suspend = ptr.To(false) })
		l.want(l.after(time.Second), "2000-01-01T06:00:00+01:00", "2000-01-01T06:00:00+05:30", "2000-01-01T06:10:00+01:00", "2000-01-01T06:30:00+01:00")
	})
}

// In spring an hour is missing: 02:30 of 2 April is no time in New York. In
// autumn 01:30 of 29 October is two times.
func TestDaylightSaving(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := startLive(t, daily("30 2 * 4 *", "America/New_York"))
		l.want(l.after(time.Until(at("2000-04-03T12:00:00Z"))), "2000-04-01T02:30:00-05:00", "2000-04-03T02:30:00-04:00")
	})
	synctest.Test(t, func(t *testing.T) {
		l := startLive(t, daily("30 1 28-30 10 *", "America/New_York"))
		l.want(l.after(time.Until(at("2000-10-30T12:00:00Z"))),
			"2000-10-28T01:30:00-04:00", "2000-10-29T01:30:00-04:00", "2000-10-29T01:30:00-05:00", "2000-10-30T01:30:00-05:00")
	})
}

// A clock that is put forward makes what is due at once; one that is put back
// makes no start twice. Neither makes the controller busy.
func TestClockJumps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := startLive(t, daily("0 * * * *", "Etc/UTC"))
		l.want(l.after(time.Hour+time.Second), "2000-01-01T01:00:00Z")
		l.set(90 * time.Minute)
		l.want(l.after(driftPeriod), "2000-01-01T01:00:00Z", "2000-01-01T02:00:00Z")
		l.set(-100 * time.Minute)
		writes := len(l.client.Actions())
		l.want(l.after(2*time.Hour), "2000-01-01T01:00:00Z", "2000-01-01T02:00:00Z")
		if calls := len(l.client.Actions()) - writes; calls > 2 { // the lists of the test
			t.Errorf("%d calls while nothing was due", calls)
		}
		l.set(100 * time.Minute)
		l.want(l.after(driftPeriod), "2000-01-01T01:00:00Z", "2000-01-01T02:00:00Z", "2000-01-01T04:00:00Z")
	})
}

// What can never start costs nothing.
func TestRestsWithoutStarts(t *testing.T) {
	for name, change := range map[string]func(*batchv1.CronJob){
		"30 February": func(cj *batchv1.CronJob) { cj.Spec.Schedule = "0 0 30 2 *" },
		"no zone":     func(cj *batchv1.CronJob) { cj.Spec.TimeZone = ptr.To("Mars/Olympus") },
		"no schedule": func(cj *batchv1.CronJob) { cj.Spec.Schedule = "TZ=0" },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cj := cronJob(nil)
				change(cj)
				l := startLive(t, cj)
				l.want(l.after(time.Minute))
				calls := len(l.client.Actions())
				l.want(l.after(30 * 24 * time.Hour))
				if got := len(l.client.Actions()) - calls; got > 1 { // the list of the test
					t.Errorf("%d calls in a month", got)
				}
			})
		})
	}
}
