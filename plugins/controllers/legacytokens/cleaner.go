package legacytokens

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"pintle.dev/pintle/sdk/controller"
)

const (
	lastUsedLabel     = "kubernetes.io/legacy-token-last-used"
	invalidSinceLabel = "kubernetes.io/legacy-token-invalid-since"

	trackingConfigMap = "kube-apiserver-legacy-service-account-token-tracking"
	trackingKey       = "since"

	day           = time.DateOnly
	period        = 24 * time.Hour
	defaultUnused = 365 * 24 * time.Hour
	page          = 500 // objects in an answer
)

// Config of the cleaner, in JSON.
type Config struct {
	// CleanUpPeriod is how long a token must be unused, and then invalid, such as
	// 8760h, which is the default.
	CleanUpPeriod string `json:"cleanUpPeriod"`
}

// New builds the controller from a Config in JSON.
func New(c *controller.Context) (controller.Runner, error) {
	unused, err := readConfig(c.Config)
	if err != nil {
		return nil, fmt.Errorf("legacy-serviceaccount-token-cleaner: %w", err)
	}
	return &cleaner{client: c.Client, unused: unused, log: c.Logger}, nil
}

func readConfig(config []byte) (time.Duration, error) {
	var c Config
	if len(config) > 0 {
		d := json.NewDecoder(bytes.NewReader(config))
		d.DisallowUnknownFields()
		if err := d.Decode(&c); err != nil {
			return 0, fmt.Errorf("configuration: %w; it has cleanUpPeriod", err)
		}
	}
	if c.CleanUpPeriod == "" {
		return defaultUnused, nil
	}
	unused, err := time.ParseDuration(c.CleanUpPeriod)
	if err != nil || unused <= 0 {
		return 0, fmt.Errorf("configuration: cleanUpPeriod %q is not a time above zero such as 8760h", c.CleanUpPeriod)
	}
	return unused, nil
}

type cleaner struct {
	client kubernetes.Interface
	unused time.Duration
	log    *slog.Logger
}

// Run cleans each day until ctx ends.
func (c *cleaner) Run(ctx context.Context) error {
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	for {
		if err := c.clean(ctx); err != nil && ctx.Err() == nil {
			c.log.Warn("not all unused tokens of service accounts could be looked at; the next look is tomorrow", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

func (c *cleaner) clean(ctx context.Context) error {
	now := time.Now().UTC()
	since, err := c.trackedSince(ctx)
	if err != nil {
		return err
	}
	if now.Before(since.Add(c.unused)) {
		return nil
	}
	r := round{cleaner: c, now: now, before: now.Add(-c.unused), mounted: map[string]map[string]bool{}}
	o := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("type", string(corev1.SecretTypeServiceAccountToken)).String(), Limit: page}
	var faults []error
	for {
		list, err := c.client.CoreV1().Secrets(metav1.NamespaceAll).List(ctx, o)
		if err != nil {
			return errors.Join(append(faults, fmt.Errorf("list the Secrets of tokens: %w", err))...)
		}
		for i := range list.Items {
			s := &list.Items[i]
			if err := r.look(ctx, s); err != nil {
				faults = append(faults, fmt.Errorf("secret %s/%s: %w", s.Namespace, s.Name, err))
			}
		}
		if o.Continue = list.Continue; o.Continue == "" {
			return errors.Join(faults...)
		}
	}
}

// trackedSince is the end of the day on which uses began to be written down.
func (c *cleaner) trackedSince(ctx context.Context) (time.Time, error) {
	cm, err := c.client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(ctx, trackingConfigMap, metav1.GetOptions{})
	if err != nil {
		return time.Time{}, fmt.Errorf("configmap %s/%s: %w", metav1.NamespaceSystem, trackingConfigMap, err)
	}
	since, err := time.Parse(day, cm.Data[trackingKey])
	if err != nil {
		return time.Time{}, fmt.Errorf("configmap %s/%s: key %s: %w", metav1.NamespaceSystem, trackingConfigMap, trackingKey, err)
	}
	return since.AddDate(0, 0, 1), nil
}

// round is one look at all Secrets.
type round struct {
	*cleaner
	now, before time.Time
	// mounted are the names of the Secrets that pods use, by namespace.
	mounted map[string]map[string]bool
}

// look labels or deletes a Secret whose token is not used.
func (r *round) look(ctx context.Context, s *corev1.Secret) error {
	if s.Type != corev1.SecretTypeServiceAccountToken || s.DeletionTimestamp != nil || !s.CreationTimestamp.Time.Before(r.before) {
		return nil
	}
	keepFrom := r.before.Format(day)
	if used, ok := s.Labels[lastUsedLabel]; ok {
		if _, err := time.Parse(day, used); err != nil {
			return fmt.Errorf("label %s: %w", lastUsedLabel, err)
		}
		if used >= keepFrom {
			return nil
		}
	}
	generated, err := r.generated(ctx, s)
	if err != nil || !generated {
		return err
	}
	mounted, err := r.inPods(ctx, s.Namespace)
	if err != nil || mounted[s.Name] {
		return err
	}
	secrets := r.client.CoreV1().Secrets(s.Namespace)
	since := s.Labels[invalidSinceLabel]
	if _, err := time.Parse(day, since); err != nil {
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
			"uid": s.UID, "labels": map[string]string{invalidSinceLabel: r.now.Format(day)},
		}})
		if err != nil {
			return err
		}
		if _, err := secrets.Patch(ctx, s.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return fmt.Errorf("label it with %s: %w", invalidSinceLabel, err)
		}
		r.log.Info("an unused token of a service account is not valid any more", "namespace", s.Namespace, "secret", s.Name, "invalidSince", r.now.Format(day))
		return nil
	}
	if since >= keepFrom {
		return nil
	}
	err = secrets.Delete(ctx, s.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &s.UID, ResourceVersion: &s.ResourceVersion}})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete it: %w", err)
	}
	if err == nil {
		r.log.Info("an unused token of a service account is deleted", "namespace", s.Namespace, "secret", s.Name, "lastUsed", s.Labels[lastUsedLabel], "invalidSince", since)
	}
	return nil
}

// generated tells whether the Secret is in its service account's list: one that a
// user made is in none.
func (r *round) generated(ctx context.Context, s *corev1.Secret) (bool, error) {
	name, uid := s.Annotations[corev1.ServiceAccountNameKey], s.Annotations[corev1.ServiceAccountUIDKey]
	if name == "" {
		return false, nil
	}
	account, err := r.client.CoreV1().ServiceAccounts(s.Namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("service account %s: %w", name, err)
	}
	return (uid == "" || uid == string(account.UID)) &&
		slices.ContainsFunc(account.Secrets, func(o corev1.ObjectReference) bool { return o.Name == s.Name }), nil
}

// inPods are the names of the Secrets that the pods of a namespace use.
func (r *round) inPods(ctx context.Context, namespace string) (map[string]bool, error) {
	if names, ok := r.mounted[namespace]; ok {
		return names, nil
	}
	names := map[string]bool{}
	o := metav1.ListOptions{Limit: page}
	for {
		list, err := r.client.CoreV1().Pods(namespace).List(ctx, o)
		if err != nil {
			return nil, fmt.Errorf("list the pods of %s: %w", namespace, err)
		}
		for i := range list.Items {
			secretsOf(&list.Items[i].Spec, func(name string) { names[name] = true })
		}
		if o.Continue = list.Continue; o.Continue == "" {
			r.mounted[namespace] = names
			return names, nil
		}
	}
}
