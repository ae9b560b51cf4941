package published

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"pintle.dev/pintle/kernel/revocation"
	"pintle.dev/pintle/kernel/secretfile"
)

// Follower brings the published list in force on a machine.
type Follower struct {
	guard  *revocation.Guard
	cas    []*x509.Certificate
	file   string
	logger *slog.Logger

	mu   sync.Mutex
	said string // the fault that was logged last
}

// NewFollower has the list of an earlier run, of a file, in force at once. A list is one that
// any of cas has signed. An absent file is an empty list, a damaged one an error.
func NewFollower(file string, cas []*x509.Certificate, logger *slog.Logger) (*Follower, error) {
	f := &Follower{cas: cas, file: file, logger: logger, guard: revocation.NewGuard(&revocation.List{})}
	var faults []error
	for _, ca := range cas {
		list, err := revocation.Read(file, ca)
		if err == nil {
			// An empty one says nothing of whose the next is: a guard's list has one issuer.
			if len(list.Entries()) > 0 {
				f.guard.Add(list)
			}
			return f, nil
		}
		faults = append(faults, err)
	}
	if len(faults) == 0 {
		return f, nil // no client certificate is taken
	}
	return nil, fmt.Errorf("%w; on a machine without a kernel: remove it, and the API has it", errors.Join(faults...))
}

// Guard refuses what is on the list.
func (f *Follower) Guard() *revocation.Guard { return f.guard }

// Run reads the ConfigMap, and follows it until ctx ends. Call it once.
func (f *Follower) Run(ctx context.Context, client kubernetes.Interface) error {
	maps, one := client.CoreV1().ConfigMaps(Namespace), fields.OneTermEqualSelector("metadata.name", Name).String()
	informer := cache.NewSharedInformer(cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.FieldSelector = one
			return maps.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = one
			return maps.Watch(ctx, o)
		},
	}, client), &corev1.ConfigMap{}, 0)
	take := func(obj any) {
		if m, ok := obj.(*corev1.ConfigMap); ok && m.Name == Name {
			f.take([]byte(m.Data[Key]))
		}
	}
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: take, UpdateFunc: func(_, now any) { take(now) }}); err != nil {
		return fmt.Errorf("follow ConfigMap %s/%s: %w", Namespace, Name, err)
	}
	if err := informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
		f.complain(fmt.Errorf("read it, which pintle token create gives nodes the right to, where the kernel runs: %w", err))
	}); err != nil {
		return fmt.Errorf("follow ConfigMap %s/%s: %w", Namespace, Name, err)
	}
	informer.RunWithContext(ctx)
	return nil
}

// complain logs a fault when it is another one.
func (f *Follower) complain(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if text := err.Error(); text != f.said {
		f.said = text
		f.logger.Warn("certificates that are revoked from now on are not refused at the node's port; tried again", "configmap", Namespace+"/"+Name, "error", err)
	}
}

// take adds a list to the one in force, and keeps it where it has all of that.
func (f *Follower) take(data []byte) {
	var faults []error
	for _, ca := range f.cas {
		list, err := revocation.Parse(data, ca)
		if err != nil {
			faults = append(faults, err)
			continue
		}
		before := f.guard.List()
		if !f.guard.Add(list) {
			return
		}
		for _, e := range list.Entries() {
			if !before.Has(e.Serial) {
				f.logger.Info("certificate revoked; its connections are cut", "serial", fmt.Sprintf("%x", e.Serial))
			}
		}
		if _, lacks := list.Union(before); lacks {
			return // an older one of another kernel; the next has both
		}
		if err := secretfile.Write(f.file, data, 0o600); err != nil {
			f.logger.Error("the list of revoked certificates is in force and not kept for the next start", "file", f.file, "error", err)
		}
		return
	}
	f.complain(fmt.Errorf("it has no list that the cluster's authority signed: %w", errors.Join(faults...)))
}
