package identitylease

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func leaseOf(name string, labels map[string]string, renewed *time.Time, seconds int32) *coordinationv1.Lease {
	l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "kube-system", Labels: labels, UID: "u", ResourceVersion: "1"}}
	l.Spec.LeaseDurationSeconds = &seconds
	if renewed != nil {
		l.Spec.RenewTime = &metav1.MicroTime{Time: *renewed}
	}
	return l
}

func keeper(t *testing.T, objects ...runtime.Object) (*Keeper, *fake.Clientset, *clocktesting.FakeClock) {
	t.Helper()
	client, clock := fake.NewClientset(objects...), clocktesting.NewFakeClock(now)
	return New(Config{Client: client, Name: Identity("m", "/d"), Hostname: "m", Clock: clock, Logger: slog.New(slog.DiscardHandler)}), client, clock
}

func names(t *testing.T, client *fake.Clientset) []string {
	t.Helper()
	list, err := client.CoordinationV1().Leases("").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, l := range list.Items {
		seen[l.Namespace+"/"+l.Name] = true
	}
	return slices.Sorted(maps.Keys(seen))
}

// TestCollect: what is over goes, and nothing else.
func TestCollect(t *testing.T) {
	ours := map[string]string{label: component}
	at := func(ago time.Duration) *time.Time { t := now.Add(-ago); return &t }
	elsewhere := leaseOf("old", ours, at(5*time.Hour), 3600)
	elsewhere.Namespace = "default"
	k, client, _ := keeper(t,
		leaseOf("living", ours, at(time.Minute), 3600),
		leaseOf("at-the-end", ours, at(time.Hour), 3600),
		leaseOf("dead", ours, at(time.Hour+time.Second), 3600),
		leaseOf("never-renewed", ours, nil, 3600),
		leaseOf("another-component", map[string]string{label: "other"}, at(5*time.Hour), 3600),
		leaseOf("kube-scheduler", nil, at(5*time.Hour), 15),
		leaseOf(Identity("m", "/d"), ours, at(5*time.Hour), 3600),
		elsewhere,
	)
	k.collect(t.Context())
	want := []string{"default/old", "kube-system/another-component", "kube-system/" + Identity("m", "/d"), "kube-system/at-the-end", "kube-system/kube-scheduler", "kube-system/living"}
	slices.Sort(want)
	if got := names(t, client); !slices.Equal(got, want) {
		t.Errorf("left are %v, want %v", got, want)
	}
}

// TestCollectRenewed: a Lease that is renewed while it is looked at stays.
func TestCollectRenewed(t *testing.T) {
	k, client, _ := keeper(t, leaseOf("dead", map[string]string{label: component}, nil, 1))
	asked := false
	client.PrependReactor("delete", "leases", func(a clienttesting.Action) (bool, runtime.Object, error) {
		p := a.(clienttesting.DeleteActionImpl).DeleteOptions.Preconditions
		asked = p != nil && p.ResourceVersion != nil && *p.ResourceVersion == "1" && p.UID != nil
		return true, nil, apierrors.NewConflict(coordinationv1.Resource("leases"), "dead", nil)
	})
	k.collect(t.Context())
	if !asked {
		t.Error("a lease is deleted whatever became of it")
	}
}

// TestRun: the Lease is there while the kernel runs, and after a release it is gone.
func TestRun(t *testing.T) {
	k, client, _ := keeper(t)
	created := make(chan *coordinationv1.Lease, 1)
	client.PrependReactor("create", "leases", func(a clienttesting.Action) (bool, runtime.Object, error) {
		created <- a.(clienttesting.CreateAction).GetObject().(*coordinationv1.Lease)
		return false, nil, nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		k.Run(ctx)
	}()
	l := <-created
	if !strings.HasPrefix(l.Name, "apiserver-") || l.Labels[label] != component || l.Labels["kubernetes.io/hostname"] != "m" || *l.Spec.LeaseDurationSeconds != 3600 ||
		!l.Spec.RenewTime.Time.Equal(now) || !strings.HasPrefix(*l.Spec.HolderIdentity, l.Name+"_") {
		t.Errorf("%+v", l)
	}
	if err := k.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-done
	cancel()
	if got := names(t, client); len(got) > 0 {
		t.Errorf("left are %v", got)
	}
	// Who never ran has nothing to release, and somebody else may have taken it away.
	if err := k.Release(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestIdentity(t *testing.T) {
	if Identity("a", "bc") == Identity("ab", "c") {
		t.Error("two kernels have one identity")
	}
	if id := Identity("a", "b"); len(id) != len("apiserver-")+26 || id != Identity("a", "b") {
		t.Error(id)
	}
}
