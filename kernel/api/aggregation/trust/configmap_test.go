package trust

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"log/slog"
	"math/big"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	clocktesting "k8s.io/utils/clock/testing"
)

var now = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func authority(t *testing.T, name string, until time.Time) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: now.Add(-time.Hour), NotAfter: until, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

func TestMerge(t *testing.T) {
	year := now.AddDate(1, 0, 0)
	client, front, other, old := authority(t, "clients", year), authority(t, "front", year), authority(t, "other kernel", year), authority(t, "old", now.Add(-time.Minute))
	want := FrontProxy("front-proxy-client", []byte(client), []byte(front))
	fresh := map[string]string{
		"client-ca-file": client, "requestheader-client-ca-file": front, "requestheader-allowed-names": `["front-proxy-client"]`,
		"requestheader-username-headers": `["X-Remote-User"]`, "requestheader-uid-headers": `["X-Remote-Uid"]`,
		"requestheader-group-headers": `["X-Remote-Group"]`, "requestheader-extra-headers-prefix": `["X-Remote-Extra-"]`,
	}
	with := func(key, value string) map[string]string {
		out := map[string]string{}
		for k, v := range fresh {
			out[k] = v
		}
		out[key] = value
		return out
	}
	for name, tt := range map[string]struct{ have, want map[string]string }{
		"new":                   {nil, fresh},
		"as it is":              {fresh, fresh},
		"another kernel's":      {with("requestheader-client-ca-file", other), with("requestheader-client-ca-file", other+front)},
		"both":                  {with("requestheader-client-ca-file", front+other), with("requestheader-client-ca-file", front+other)},
		"expired":               {with("requestheader-client-ca-file", old+front), fresh},
		"another name":          {with("requestheader-allowed-names", `["theirs"]`), with("requestheader-allowed-names", `["theirs","front-proxy-client"]`)},
		"rubbish for a list":    {with("requestheader-group-headers", `{"a":1}`), fresh},
		"rubbish for a bundle":  {with("client-ca-file", "nonsense"), fresh},
		"a key is taken away":   {map[string]string{"client-ca-file": client}, fresh},
		"what is somebody's is": {with("mine", "x"), with("mine", "x")},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := want.merge(tt.have, now)
			if err != nil {
				t.Fatal(err)
			}
			if len(got) != len(tt.want) {
				t.Errorf("%d keys, want %d", len(got), len(tt.want))
			}
			for k, v := range tt.want {
				if got[k] != v {
					t.Errorf("%s: %q, want %q", k, got[k], v)
				}
			}
		})
	}
}

// What somebody changes or deletes is written anew; a failure is tried again.
func TestKeep(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	client := fake.NewClientset()
	year := now.AddDate(1, 0, 0)
	want := FrontProxy("front-proxy-client", []byte(authority(t, "clients", year)), []byte(authority(t, "front", year)))
	clock := clocktesting.NewFakeClock(now)
	var failed atomic.Int64
	watched := make(chan struct{})
	begin := sync.OnceFunc(func() { close(watched) })
	k := Keeper{
		Client: client.CoreV1(), Clock: clock, Logger: slog.New(slog.DiscardHandler),
		Source: cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
				return client.CoreV1().ConfigMaps(metav1.NamespaceSystem).List(ctx, o)
			},
			WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
				w, err := client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Watch(ctx, o)
				if err == nil {
					begin()
				}
				return w, err
			},
		}, client),
		Trust: func() (Trust, error) {
			if failed.Add(1) == 1 {
				return Trust{}, errors.New("no certificate yet")
			}
			return want, nil
		},
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		k.Keep(ctx)
	}()
	defer func() {
		cancel()
		<-done
	}()
	written := func() *corev1.ConfigMap {
		t.Helper()
		deadline := time.Now().Add(2 * time.Minute)
		for time.Now().Before(deadline) {
			have, err := client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(ctx, Name, metav1.GetOptions{})
			if err == nil && have.Data["requestheader-allowed-names"] == `["front-proxy-client"]` {
				return have
			}
			if clock.HasWaiters() {
				clock.Step(retryAfter)
			}
			time.Sleep(time.Millisecond)
		}
		t.Fatal("not written")
		return nil
	}
	have := written()
	have.Data = map[string]string{}
	if _, err := client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Update(ctx, have, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	written()
	if failed.Load() < 2 {
		t.Error("nothing failed")
	}
	<-watched // the fake client tells a deletion to the watches of that moment only
	if err := client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Delete(ctx, Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	written()
}
