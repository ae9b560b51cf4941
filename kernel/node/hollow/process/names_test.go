package process

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"pintle.dev/pintle/kernel/node/hollow"
)

// versioned is a client whose server refuses updates of another version, as a real one.
func versioned(objects ...runtime.Object) *fake.Clientset {
	client := fake.NewClientset(objects...)
	var mu sync.Mutex
	version := 0
	client.PrependReactor("update", "leases", func(action clienttesting.Action) (bool, runtime.Object, error) {
		mu.Lock()
		defer mu.Unlock()
		next := action.(clienttesting.UpdateAction).GetObject().(*coordinationv1.Lease).DeepCopy()
		have, err := client.Tracker().Get(action.GetResource(), action.GetNamespace(), next.Name)
		if err != nil {
			return true, nil, err
		}
		if have.(*coordinationv1.Lease).ResourceVersion != next.ResourceVersion {
			return true, nil, apierrors.NewConflict(action.GetResource().GroupResource(), next.Name, errors.New("changed"))
		}
		version++
		next.ResourceVersion = fmt.Sprint(version)
		return true, next, client.Tracker().Update(action.GetResource(), next, action.GetNamespace())
	})
	return client
}

func namesOf(client *fake.Clientset, holder string) *names {
	return &names{client: client, name: "big", nodes: 3, holder: holder, logger: slog.New(slog.DiscardHandler), say: func(string, ...any) {}}
}

func aNode(name string, labels map[string]string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
}

// TestNamesOfTwo: of two processes one has the names; the other is refused while the first
// lives, gets them at once after an orderly end, and after the Lease's time otherwise.
func TestNamesOfTwo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := versioned()
		first, second := namesOf(client, "first"), namesOf(client, "second")
		ctx, cancel := context.WithCancel(t.Context())
		if err := first.claim(ctx); err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := first.keep(ctx); err != nil {
				t.Error(err)
			}
		})
		if err := second.claim(t.Context()); err == nil || !strings.Contains(err.Error(), "big-0 to big-2 are those of another process, first") {
			t.Errorf("the second: %v", err)
		}
		cancel()
		wg.Wait()
		if err := first.release(t.Context()); err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		if err := second.claim(t.Context()); err != nil || time.Since(begun) > 0 {
			t.Errorf("after an orderly end: %v after %s", err, time.Since(begun))
		}
		// The second does not renew any more: it was killed.
		begun = time.Now()
		if err := first.claim(t.Context()); err != nil || time.Since(begun) < namesDuration {
			t.Errorf("after a kill: %v after %s", err, time.Since(begun))
		}
		// It finds out, and does not give away what is not its own.
		if err := second.keep(t.Context()); !errors.As(err, new(lostError)) {
			t.Errorf("the second goes on: %v", err)
		}
		if err := second.release(t.Context()); err != nil {
			t.Error(err)
		}
		if lease, err := first.get(t.Context()); err != nil || *lease.Spec.HolderIdentity != "first" {
			t.Errorf("%v %v", lease, err)
		}
	})
}

// TestNamesAtOnce: of many that begin together exactly one has the names.
func TestNamesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := versioned()
		ctx, cancel := context.WithCancel(t.Context())
		var mu sync.Mutex
		have, refused := 0, 0
		var wg, claims sync.WaitGroup
		for i := range 10 {
			n := namesOf(client, fmt.Sprint("p", i))
			claims.Add(1)
			wg.Go(func() {
				err := n.claim(ctx)
				mu.Lock()
				if err == nil {
					have++
				} else {
					refused++
				}
				mu.Unlock()
				claims.Done()
				if err == nil {
					_ = n.keep(ctx)
				}
			})
		}
		claims.Wait()
		cancel()
		wg.Wait()
		if have != 1 || refused != 9 {
			t.Errorf("%d have the names, %d were refused", have, refused)
		}
	})
}

// TestNamesOfOthers: a node of that name that is no hollow node is left alone.
func TestNamesOfOthers(t *testing.T) {
	marked := map[string]string{hollow.Label: "true"}
	for name, tc := range map[string]struct {
		objects []runtime.Object
		want    string
	}{
		"a machine":         {[]runtime.Object{aNode("big-2", nil)}, "node big-2 is there and is no hollow node"},
		"without a Lease":   {[]runtime.Object{aNode("big-1", marked)}, ""},
		"beyond our own":    {[]runtime.Object{aNode("big-3", nil), aNode("big-x", nil), aNode("big-00", nil)}, ""},
		"of another prefix": {[]runtime.Object{aNode("big-big-0", nil)}, ""},
	} {
		err := namesOf(versioned(tc.objects...), "p").claim(t.Context())
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
}

// beat renews the Lease of node big-0 by a clock that is ahead by skew.
func beat(t *testing.T, client *fake.Clientset, valid, skew time.Duration) {
	t.Helper()
	leases := client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	lease, err := leases.Get(t.Context(), "big-0", metav1.GetOptions{})
	missing := apierrors.IsNotFound(err)
	if err != nil && !missing {
		t.Fatal(err)
	}
	if missing {
		lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: "big-0"}}
	}
	lease.Spec = coordinationv1.LeaseSpec{HolderIdentity: ptr.To("big-0"), LeaseDurationSeconds: ptr.To(int32(valid / time.Second)),
		RenewTime: &metav1.MicroTime{Time: time.Now().Add(skew)}}
	if missing {
		_, err = leases.Create(t.Context(), lease, metav1.CreateOptions{})
	} else {
		_, err = leases.Update(t.Context(), lease, metav1.UpdateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestNamesOfKernel: names whose nodes an agent elsewhere keeps, in a kernel say, are
// refused whatever was with these names before, and an ordered stop leaves them free.
func TestNamesOfKernel(t *testing.T) {
	const day = 24 * time.Hour
	for name, tc := range map[string]struct {
		before  string        // what became of the process before: none, stopped, killed
		renewed bool          // its nodes renewed their Leases before that
		kernel  time.Duration // a kernel renews them for this long after it
		valid   time.Duration
		skew    time.Duration // of the clocks of all others
		refused bool
		after   time.Duration // the least time that an answer takes
		within  time.Duration // and the most
	}{
		"a kernel":                        {before: "none", kernel: day, valid: namesDuration, refused: true, within: namesDuration},
		"a kernel, its clock behind":      {before: "none", kernel: day, valid: namesDuration, skew: -time.Hour, refused: true, within: namesDuration},
		"a kernel, seldom":                {before: "none", kernel: day, valid: 10 * namesDuration, refused: true, within: namesDuration},
		"a kernel that ended":             {before: "none", kernel: time.Minute, valid: namesDuration, within: namesDuration, after: namesDuration},
		"a kernel that ended, ahead":      {before: "none", kernel: time.Minute, valid: namesDuration, skew: time.Hour, within: namesDuration},
		"a stop":                          {before: "stopped", renewed: true, valid: namesDuration},
		"a stop, seldom":                  {before: "stopped", renewed: true, valid: day},
		"a stop without nodes":            {before: "stopped"},
		"a stop, then a kernel":           {before: "stopped", renewed: true, kernel: day, valid: namesDuration, refused: true, within: namesDuration},
		"no nodes, then a kernel":         {before: "stopped", kernel: day, valid: namesDuration, refused: true, within: namesDuration},
		"a stop, then a kernel, seldom":   {before: "stopped", renewed: true, kernel: day, valid: 10 * namesDuration, refused: true, within: namesDuration},
		"a stop, then a kernel that ends": {before: "stopped", renewed: true, kernel: time.Minute, valid: namesDuration, after: namesDuration, within: namesDuration},
		"killed":                          {before: "killed", renewed: true, valid: namesDuration, after: namesDuration, within: namesDuration},
		"killed, seldom":                  {before: "killed", renewed: true, valid: day, after: namesDuration, within: namesDuration},
		"killed, then a kernel":           {before: "killed", renewed: true, kernel: day, valid: namesDuration, refused: true, within: namesDuration},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := versioned()
				if tc.before != "none" {
					before := namesOf(client, "before")
					if err := before.claim(t.Context()); err != nil {
						t.Fatal(err)
					}
					if tc.renewed {
						beat(t, client, tc.valid, tc.skew)
					}
					if tc.before == "stopped" {
						if err := before.release(t.Context()); err != nil {
							t.Fatal(err)
						}
					}
				}
				over, end := context.WithTimeout(t.Context(), tc.kernel)
				var wg sync.WaitGroup
				if tc.kernel > 0 {
					time.Sleep(time.Millisecond)
					beat(t, client, tc.valid, tc.skew)
					wg.Go(func() {
						for {
							select {
							case <-over.Done():
								return
							case <-time.After(tc.valid / 4):
								beat(t, client, tc.valid, tc.skew)
							}
						}
					})
					if tc.kernel < day {
						<-over.Done()
					}
				}
				begun := time.Now()
				err := namesOf(client, "p").claim(t.Context())
				took := time.Since(begun)
				end()
				wg.Wait()
				if tc.refused != (err != nil) || err != nil && !strings.Contains(err.Error(), "node big-0 has an agent elsewhere") {
					t.Errorf("%v", err)
				}
				if took < tc.after || took > tc.within+2*namesLook {
					t.Errorf("it took %s, want %s to %s", took, tc.after, tc.within)
				}
			})
		})
	}
}

// TestNamesByAnotherClock: a Lease whose holder's clock is wrong is neither taken while it
// is renewed nor waited for longer than it is valid.
func TestNamesByAnotherClock(t *testing.T) {
	for _, skew := range []time.Duration{-time.Hour, time.Hour} {
		for _, lives := range []bool{true, false} {
			t.Run(fmt.Sprint(skew, lives), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					client := versioned()
					renew := func() {
						lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: leaseName("big")}}
						namesOf(client, "other").hold(lease)
						lease.Spec.RenewTime.Time = lease.Spec.RenewTime.Add(skew)
						if err := client.Tracker().Update(coordinationv1.SchemeGroupVersion.WithResource("leases"), lease, lease.Namespace); err != nil {
							t.Error(err)
						}
					}
					if err := namesOf(client, "other").claim(t.Context()); err != nil {
						t.Fatal(err)
					}
					renew()
					ctx, cancel := context.WithCancel(t.Context())
					var wg sync.WaitGroup
					wg.Go(func() {
						for lives {
							select {
							case <-ctx.Done():
								return
							case <-time.After(namesRenew):
								renew()
							}
						}
					})
					begun := time.Now()
					err := namesOf(client, "p").claim(ctx)
					took := time.Since(begun)
					cancel()
					wg.Wait()
					if lives != (err != nil) || err != nil && !strings.Contains(err.Error(), "are those of another process, other") {
						t.Errorf("%v", err)
					}
					if !lives && (took < namesDuration || took > namesDuration+2*namesLook) {
						t.Errorf("it took %s", took)
					}
				})
			})
		}
	}
}

// TestNamesNotRenewed: a process whose renewals fail, or are not answered, ends once its
// Lease has run out, and not before; one that succeeds in between lets it run on.
func TestNamesNotRenewed(t *testing.T) {
	for name, tc := range map[string]struct {
		answers func(ctx context.Context, since time.Duration) error
		ends    time.Duration // 0: it does not end
	}{
		"refused": {func(context.Context, time.Duration) error { return errors.New("no server") }, namesEnd},
		"silent":  {func(ctx context.Context, _ time.Duration) error { <-ctx.Done(); return ctx.Err() }, namesEnd},
		"slow": {func(ctx context.Context, _ time.Duration) error {
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
			}
			return errors.New("no server")
		}, namesEnd},
		"one of two": {func(_ context.Context, since time.Duration) error {
			if int(since/namesRenew)%2 == 0 {
				return nil
			}
			return errors.New("no server")
		}, 0},
		"after a minute": {func(_ context.Context, since time.Duration) error {
			if since <= time.Minute {
				return nil
			}
			return errors.New("no server")
		}, time.Minute + namesEnd},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := versioned()
				n := namesOf(client, "p")
				if err := n.claim(t.Context()); err != nil {
					t.Fatal(err)
				}
				begun := time.Now()
				n.client = failing{client, func(ctx context.Context) error { return tc.answers(ctx, time.Since(begun)) }}
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				err := n.keep(ctx)
				took := time.Since(begun)
				if tc.ends == 0 {
					if err != nil || took < time.Hour {
						t.Errorf("it ended after %s: %v", took, err)
					}
					return
				}
				if !errors.As(err, new(lostError)) || !strings.Contains(err.Error(), "was not renewed for 30s") || took != tc.ends {
					t.Errorf("after %s, want %s: %v", took, tc.ends, err)
				}
				over, end := context.WithCancelCause(t.Context())
				if end(err); lost(over) == nil {
					t.Error("Run would end without an error")
				}
			})
		})
	}
}

// failing is a client whose reads of Leases may fail.
type failing struct {
	kubernetes.Interface
	fault func(ctx context.Context) error
}

func (f failing) CoordinationV1() coordinationclient.CoordinationV1Interface {
	return failingGroup{f.Interface.CoordinationV1(), f.fault}
}

type failingGroup struct {
	coordinationclient.CoordinationV1Interface
	fault func(ctx context.Context) error
}

func (f failingGroup) Leases(namespace string) coordinationclient.LeaseInterface {
	return failingLeases{f.CoordinationV1Interface.Leases(namespace), f.fault}
}

type failingLeases struct {
	coordinationclient.LeaseInterface
	fault func(ctx context.Context) error
}

func (f failingLeases) Get(ctx context.Context, name string, o metav1.GetOptions) (*coordinationv1.Lease, error) {
	if err := f.fault(ctx); err != nil {
		return nil, err
	}
	return f.LeaseInterface.Get(ctx, name, o)
}
