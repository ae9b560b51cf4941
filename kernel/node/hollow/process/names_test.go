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
	"k8s.io/client-go/kubernetes/fake"
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

// TestNamesOfOthers: a node of that name that is no hollow node, or that a kernel keeps, is
// left alone.
func TestNamesOfOthers(t *testing.T) {
	marked := map[string]string{hollow.Label: "true"}
	beat := func(at time.Time) *coordinationv1.Lease {
		return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: "big-1"},
			Spec: coordinationv1.LeaseSpec{HolderIdentity: ptr.To("big-1"), LeaseDurationSeconds: ptr.To[int32](40), RenewTime: &metav1.MicroTime{Time: at}}}
	}
	for name, tc := range map[string]struct {
		objects []runtime.Object
		want    string
	}{
		"a machine":         {[]runtime.Object{aNode("big-2", nil)}, "node big-2 is there and is no hollow node"},
		"a kernel's":        {[]runtime.Object{aNode("big-1", marked), beat(time.Now())}, "node big-1 has an agent elsewhere"},
		"nobody's":          {[]runtime.Object{aNode("big-1", marked), beat(time.Now().Add(-time.Hour))}, ""},
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
