package trust

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/clock"
)

// Name is that of the ConfigMap, in kube-system.
const Name = "extension-apiserver-authentication"

// retryAfter is how soon a write that failed is tried again.
const retryAfter = 10 * time.Second

// Trust is what other API servers are told.
type Trust struct {
	ClientCA      []byte   // PEM: clients of the cluster
	FrontProxyCA  []byte   // PEM: the front proxy
	AllowedNames  []string // common names of the front proxy
	UserHeaders   []string
	UIDHeaders    []string
	GroupHeaders  []string
	ExtraPrefixes []string
}

// FrontProxy is what a proxy tells with k8s.io/client-go's headers, under a name.
func FrontProxy(name string, clientCA, frontProxyCA []byte) Trust {
	return Trust{
		ClientCA: clientCA, FrontProxyCA: frontProxyCA, AllowedNames: []string{name},
		UserHeaders: []string{"X-Remote-User"}, UIDHeaders: []string{"X-Remote-Uid"},
		GroupHeaders: []string{"X-Remote-Group"}, ExtraPrefixes: []string{"X-Remote-Extra-"},
	}
}

// merge adds t to what a ConfigMap has.
func (t Trust) merge(have map[string]string, now time.Time) (map[string]string, error) {
	out := maps.Clone(have)
	if out == nil {
		out = map[string]string{}
	}
	for key, own := range map[string][]byte{"client-ca-file": t.ClientCA, "requestheader-client-ca-file": t.FrontProxyCA} {
		joined, err := joinAuthorities(own, []byte(have[key]), now)
		if err != nil {
			return nil, err
		}
		out[key] = string(joined)
	}
	for key, own := range map[string][]string{
		"requestheader-allowed-names": t.AllowedNames, "requestheader-username-headers": t.UserHeaders, "requestheader-uid-headers": t.UIDHeaders,
		"requestheader-group-headers": t.GroupHeaders, "requestheader-extra-headers-prefix": t.ExtraPrefixes,
	} {
		var theirs []string
		if json.Unmarshal([]byte(have[key]), &theirs) != nil {
			theirs = nil
		}
		for _, v := range own {
			if !slices.Contains(theirs, v) {
				theirs = append(theirs, v)
			}
		}
		data, err := json.Marshal(theirs)
		if err != nil {
			return nil, err
		}
		out[key] = string(data)
	}
	return out, nil
}

// joinAuthorities gives the certificates of both, each once, those of have that are in
// force in their order, and those of own that it lacks after them.
func joinAuthorities(own, have []byte, now time.Time) ([]byte, error) {
	mine, err := certutil.ParseCertsPEM(own)
	if err != nil {
		return nil, fmt.Errorf("authority: %w", err)
	}
	theirs, err := certutil.ParseCertsPEM(have)
	if err != nil {
		theirs = nil // nothing, or nothing that anybody can read
	}
	var all []*x509.Certificate
	for _, c := range slices.Concat(theirs, mine) {
		if now.After(c.NotAfter) || slices.ContainsFunc(all, c.Equal) {
			continue
		}
		all = append(all, c)
	}
	var out bytes.Buffer
	for _, c := range all {
		if err := pem.Encode(&out, &pem.Block{Type: certutil.CertificateBlockType, Bytes: c.Raw}); err != nil {
			return nil, err
		}
	}
	return out.Bytes(), nil
}

// Keeper keeps the ConfigMap.
type Keeper struct {
	Client corev1client.ConfigMapsGetter
	// Source watches the ConfigMap, and no other.
	Source cache.ListerWatcher
	// Trust gives what is to be told; an error is told, and asked again.
	Trust func() (Trust, error)
	// Changes has a function called when Trust may give another one; may be nil.
	Changes func(changed func())
	Clock   clock.WithTicker
	Logger  *slog.Logger
}

// Keep writes until ctx is done: now, and whenever somebody has changed the ConfigMap.
func (k Keeper) Keep(ctx context.Context) {
	changed := make(chan struct{}, 1)
	look := func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	informer := cache.NewSharedInformer(k.Source, &corev1.ConfigMap{}, 0)
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { look() }, UpdateFunc: func(_, _ any) { look() }, DeleteFunc: func(any) { look() },
	}); err != nil { // one that has ended; this one has not begun
		k.Logger.Error("follow ConfigMap", "name", Name, "error", err)
		return
	}
	if k.Changes != nil {
		k.Changes(look)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		informer.RunWithContext(ctx)
	}()
	defer func() { <-done }()
	for {
		var again <-chan time.Time
		if err := k.write(ctx); err != nil && ctx.Err() == nil {
			k.Logger.Warn("other API servers cannot be told whom to believe yet; tried again",
				"configmap", metav1.NamespaceSystem+"/"+Name, "error", err)
			again = k.Clock.After(retryAfter)
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-again:
		}
	}
}

// write brings the ConfigMap to what it is to be, where it is not.
func (k Keeper) write(ctx context.Context) error {
	want, err := k.Trust()
	if err != nil {
		return err
	}
	configMaps := k.Client.ConfigMaps(metav1.NamespaceSystem)
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		have, err := configMaps.Get(ctx, Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			data, err := want.merge(nil, k.Clock.Now())
			if err != nil {
				return err
			}
			_, err = configMaps.Create(ctx, &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Name: Name, Namespace: metav1.NamespaceSystem}, Data: data,
			}, metav1.CreateOptions{})
			if apierrors.IsAlreadyExists(err) { // another kernel was quicker
				return apierrors.NewConflict(corev1.Resource("configmaps"), Name, err)
			}
			return err
		}
		if err != nil {
			return err
		}
		data, err := want.merge(have.Data, k.Clock.Now())
		if err != nil || maps.Equal(data, have.Data) {
			return err
		}
		have = have.DeepCopy()
		have.Data = data
		_, err = configMaps.Update(ctx, have, metav1.UpdateOptions{})
		if apierrors.IsRequestEntityTooLargeError(err) || apierrors.IsInvalid(err) {
			// What others wrote leaves no room: the next round makes it anew.
			return deleteAfter(ctx, configMaps, err)
		}
		return err
	})
}

func deleteAfter(ctx context.Context, configMaps corev1client.ConfigMapInterface, err error) error {
	if gone := configMaps.Delete(ctx, Name, metav1.DeleteOptions{}); gone != nil {
		return fmt.Errorf("%w; delete: %w", err, gone)
	}
	return err
}
