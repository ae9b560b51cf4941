package published

import (
	"context"
	"crypto/x509"
	"fmt"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/clock"

	"pintle.dev/pintle/kernel/revocation"
)

// The ConfigMap, and its key.
const (
	Namespace = metav1.NamespaceSystem
	Name      = "pintle-revoked-certificates"
	Key       = "ca.crl"
)

const (
	// lookEvery is how often the list in force is compared with the one that was written.
	lookEvery = time.Second
	// repairEvery is how often the ConfigMap is read, which others may change.
	repairEvery = time.Minute
	// retryAfter is how soon a write that failed is tried again.
	retryAfter = 10 * time.Second
)

// Publisher keeps the ConfigMap. All of it is required.
type Publisher struct {
	Client corev1client.ConfigMapsGetter
	Guard  *revocation.Guard
	// CA is the authority, and Sign signs a list as it does.
	CA     *x509.Certificate
	Sign   func(*revocation.List) ([]byte, error)
	Clock  clock.WithTicker
	Logger *slog.Logger
}

// Keep writes the list in force until ctx ends: when it grows, and when the ConfigMap lacks
// some of it.
func (p Publisher) Keep(ctx context.Context) {
	var written *revocation.List
	var next time.Time
	ticker := p.Clock.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		if list := p.Guard.List(); list != written || !p.Clock.Now().Before(next) {
			wait := repairEvery
			if err := p.write(ctx, list); err != nil && ctx.Err() == nil {
				p.Logger.Error("machines without a kernel do not read which certificates are revoked; tried again", "configmap", Namespace+"/"+Name, "error", err)
				wait = retryAfter
			}
			written, next = list, p.Clock.Now().Add(wait)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
		}
	}
}

// write adds the list to what the ConfigMap has, where that lacks something.
func (p Publisher) write(ctx context.Context, list *revocation.List) error {
	if len(list.Entries()) == 0 {
		return nil
	}
	maps := p.Client.ConfigMaps(Namespace)
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		have, err := maps.Get(ctx, Name, metav1.GetOptions{})
		absent := apierrors.IsNotFound(err)
		if err != nil && !absent {
			return err
		}
		if !absent {
			// What the authority has not signed is written over.
			if theirs, err := revocation.Parse([]byte(have.Data[Key]), p.CA); err == nil {
				union, lacks := theirs.Union(list)
				if !lacks {
					return nil
				}
				list = union
			}
		}
		data, err := p.Sign(list)
		if err != nil {
			return fmt.Errorf("sign the list: %w", err)
		}
		if absent {
			_, err = maps.Create(ctx, &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: Name}, Data: map[string]string{Key: string(data)},
			}, metav1.CreateOptions{})
			if apierrors.IsAlreadyExists(err) { // another kernel was quicker
				return apierrors.NewConflict(corev1.Resource("configmaps"), Name, err)
			}
			return err
		}
		have = have.DeepCopy()
		have.Data = map[string]string{Key: string(data)}
		_, err = maps.Update(ctx, have, metav1.UpdateOptions{})
		return err
	})
}
