package ttlafterfinished

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
)

func ended(at time.Time, ttl *int32, t batchv1.JobConditionType) *batchv1.Job {
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "work", UID: "uid", ResourceVersion: "7"},
		Spec:       batchv1.JobSpec{TTLSecondsAfterFinished: ttl},
		Status:     batchv1.JobStatus{Conditions: []batchv1.JobCondition{{Type: t, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(at)}}},
	}
}

// fixture has cached in its cache, and fresh in the API.
func fixture(t *testing.T, clk clock.PassiveClock, cached, fresh *batchv1.Job) (*cleaner, *fake.Clientset) {
	t.Helper()
	var objects []runtime.Object
	if fresh != nil {
		objects = append(objects, fresh)
	}
	client := fake.NewClientset(objects...)
	c := build(client, informers.NewSharedInformerFactory(client, 0), Config{ConcurrentTTLSyncs: 1}, clk, slog.New(slog.DiscardHandler))
	t.Cleanup(c.loop.Close)
	if err := c.informer.GetIndexer().Add(cached); err != nil {
		t.Fatal(err)
	}
	return c, client
}

func deletions(client *fake.Clientset) (all []metav1.DeleteOptions) {
	for _, a := range client.Actions() {
		if d, ok := a.(k8stesting.DeleteActionImpl); ok {
			all = append(all, d.DeleteOptions)
		}
	}
	return all
}

// 6.19, 6.20, S13: 100 s, 0 and none; what the API says counts, not the cache.
func TestSync(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	ago := func(s int) time.Time { return now.Add(-time.Duration(s) * time.Second) }
	leaving := ended(ago(200), ptr.To[int32](100), batchv1.JobComplete)
	leaving.DeletionTimestamp = ptr.To(metav1.NewTime(now))
	target := ended(ago(200), ptr.To[int32](100), batchv1.JobFailureTarget)
	over := ended(ago(100), ptr.To[int32](100), batchv1.JobComplete)
	for name, tt := range map[string]struct {
		cached, fresh *batchv1.Job
		deleted       bool
		fault         string
	}{
		"over":                      {cached: over, fresh: over, deleted: true},
		"failed":                    {cached: ended(ago(100), ptr.To[int32](99), batchv1.JobFailed), fresh: ended(ago(100), ptr.To[int32](99), batchv1.JobFailed), deleted: true},
		"0 is at once":              {cached: ended(now, ptr.To[int32](0), batchv1.JobComplete), fresh: ended(now, ptr.To[int32](0), batchv1.JobComplete), deleted: true},
		"one second is left":        {cached: ended(ago(99), ptr.To[int32](100), batchv1.JobComplete), fresh: over},
		"no TTL":                    {cached: ended(ago(1000), nil, batchv1.JobComplete), fresh: over},
		"about to fail":             {cached: target, fresh: target},
		"being deleted":             {cached: leaving, fresh: over},
		"another TTL by now":        {cached: over, fresh: ended(ago(100), ptr.To[int32](101), batchv1.JobComplete)},
		"TTL taken away":            {cached: over, fresh: ended(ago(100), nil, batchv1.JobComplete)},
		"gone by now":               {cached: over},
		"it ends in the future":     {cached: ended(now.Add(time.Hour), ptr.To[int32](0), batchv1.JobComplete), fresh: over},
		"the longest TTL":           {cached: ended(ago(100), ptr.To[int32](1<<31-1), batchv1.JobComplete), fresh: over},
		"a status without the time": {cached: ended(time.Time{}, ptr.To[int32](0), batchv1.JobComplete), fresh: over, fault: "unable to find the time when the Job default/work finished"},
	} {
		t.Run(name, func(t *testing.T) {
			c, client := fixture(t, clocktesting.NewFakePassiveClock(now), tt.cached, tt.fresh)
			err := c.sync(t.Context(), "default/work")
			if (err == nil) != (tt.fault == "") || err != nil && !strings.Contains(err.Error(), tt.fault) {
				t.Fatalf("error %v, want %q", err, tt.fault)
			}
			got := deletions(client)
			if (len(got) == 1) != tt.deleted {
				t.Fatalf("deletions: %+v", got)
			}
			if tt.deleted && (*got[0].PropagationPolicy != metav1.DeletePropagationForeground || *got[0].Preconditions.UID != "uid" || *got[0].Preconditions.ResourceVersion != tt.fresh.ResourceVersion) {
				t.Errorf("options %+v", got[0])
			}
		})
	}
}

// The queue waits until the TTL is over, and looks in between, so that a clock
// that is set forward is noticed.
func TestTime(t *testing.T) {
	for name, jump := range map[string]time.Duration{"steady": 0, "set forward": 3 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				job := ended(time.Now().Truncate(time.Second), ptr.To[int32](7200), batchv1.JobComplete)
				clk := &offset{}
				c, client := fixture(t, clk, job, job)
				done := make(chan struct{})
				go func() { defer close(done); c.loop.Run(ctx) }()
				c.changed(nil, job)
				time.Sleep(2*time.Hour - 2*time.Second)
				synctest.Wait()
				if n := len(deletions(client)); n != 0 {
					t.Errorf("%d deletions before the TTL was over", n)
				}
				if jump == 0 {
					time.Sleep(3 * time.Second)
				} else {
					clk.by.Store(int64(-time.Hour)) // and back: nothing is due
					time.Sleep(time.Minute)
					synctest.Wait()
					if n := len(deletions(client)); n != 0 {
						t.Errorf("%d deletions after the clock was set back", n)
					}
					clk.by.Store(int64(jump))
					time.Sleep(longestWait)
				}
				synctest.Wait()
				if n := len(deletions(client)); n != 1 {
					t.Errorf("%d deletions after the TTL was over", n)
				}
				cancel()
				<-done
			})
		})
	}
}

// offset is the clock of a machine that is set.
type offset struct {
	clock.RealClock
	by atomic.Int64
}

func (o *offset) Now() time.Time { return time.Now().Add(time.Duration(o.by.Load())) }

func TestConfig(t *testing.T) {
	for data, want := range map[string]int{"": 5, "{}": 5, `{"concurrentTTLSyncs":9}`: 9} {
		if c, err := readConfig([]byte(data)); err != nil || c.ConcurrentTTLSyncs != want {
			t.Errorf("%s: %+v, %v", data, c, err)
		}
	}
	for _, data := range []string{`{"concurrentTTLSyncs":0}`, `{"concurrentTTLSyncs":100000}`, `{"other":1}`, `[]`} {
		if _, err := readConfig([]byte(data)); err == nil {
			t.Errorf("%s is taken", data)
		}
	}
}
