package tokentracking

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
)

const (
	// ConfigMapName is the name in kube-system.
	ConfigMapName = "kube-apiserver-legacy-service-account-token-tracking"
	// Key has the day, in UTC, as Day formats it.
	Key = "since"
	// Day is the form of the date.
	Day = time.DateOnly

	// createEach is how often the ConfigMap is made at most: kernels that disagree
	// about it do not fight.
	createEach = 30 * time.Minute
	retryEach  = 10 * time.Second
	lookEach   = 12 * time.Hour
)

// Keeper keeps the ConfigMap.
type Keeper struct {
	Client kubernetes.Interface
	Logger *slog.Logger

	created time.Time // by this keeper
}

// Run keeps the ConfigMap until ctx ends.
func (k *Keeper) Run(ctx context.Context) {
	for ctx.Err() == nil {
		wait, changes, err := k.look(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return
			}
			k.Logger.Warn("the day since which uses of tokens in Secrets are written down is not as it should be; it is tried again", "configMap", metav1.NamespaceSystem+"/"+ConfigMapName, "error", err)
			wait = retryEach
		}
		follow(ctx, wait, changes)
	}
}

// look puts the ConfigMap right. It returns how long nothing needs to be done unless
// the ConfigMap changes, and the watch that says so, which is nil after an error.
func (k *Keeper) look(ctx context.Context) (time.Duration, watch.Interface, error) {
	maps := k.Client.CoreV1().ConfigMaps(metav1.NamespaceSystem)
	only := fields.OneTermEqualSelector("metadata.name", ConfigMapName).String()
	list, err := maps.List(ctx, metav1.ListOptions{FieldSelector: only})
	if err != nil {
		return 0, nil, fmt.Errorf("list it: %w", err)
	}
	wait, err := k.put(ctx, list.Items)
	if err != nil {
		return 0, nil, err
	}
	changes, err := maps.Watch(ctx, metav1.ListOptions{FieldSelector: only, ResourceVersion: list.ResourceVersion})
	if err != nil {
		return 0, nil, fmt.Errorf("watch it: %w", err)
	}
	return wait, changes, nil
}

func (k *Keeper) put(ctx context.Context, found []corev1.ConfigMap) (time.Duration, error) {
	maps := k.Client.CoreV1().ConfigMaps(metav1.NamespaceSystem)
	now := time.Now()
	today := map[string]string{Key: now.UTC().Format(Day)}
	for i := range found {
		have := &found[i]
		if have.Name != ConfigMapName {
			continue
		}
		if _, err := time.Parse(Day, have.Data[Key]); err == nil {
			return lookEach, nil
		}
		have = have.DeepCopy()
		if have.Data == nil {
			have.Data = map[string]string{}
		}
		have.Data[Key] = today[Key]
		if _, err := maps.Update(ctx, have, metav1.UpdateOptions{}); err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			return 0, fmt.Errorf("update it: %w", err)
		}
		return lookEach, nil
	}
	if next := k.created.Add(createEach); !k.created.IsZero() && now.Before(next) {
		return next.Sub(now), nil
	}
	_, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: ConfigMapName}, Data: today}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return 0, fmt.Errorf("create it: %w", err)
	}
	k.created = now
	return lookEach, nil
}

// follow returns when the ConfigMap has changed to what may need work, after wait,
// or when ctx ends.
func follow(ctx context.Context, wait time.Duration, changes watch.Interface) {
	var events <-chan watch.Event
	if changes != nil {
		defer changes.Stop()
		events = changes.ResultChan()
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			return
		case e, open := <-events:
			if !open {
				// A watch that ends at once must not make a busy loop.
				events = nil
				timer.Reset(min(wait, retryEach))
				continue
			}
			if cm, ok := e.Object.(*corev1.ConfigMap); ok && e.Type != watch.Deleted && e.Type != watch.Error {
				if _, err := time.Parse(Day, cm.Data[Key]); err == nil {
					continue
				}
			}
			if e.Type == watch.Bookmark {
				continue
			}
			return
		}
	}
}
