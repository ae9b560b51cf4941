package bootstraptokens

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
	"k8s.io/cluster-bootstrap/token/jws"

	"pintle.dev/pintle/sdk/controller"
)

// token is a Secret of one that may sign; data changes it, "" takes a key away.
func token(id string, data map[string]string) *corev1.Secret {
	s := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: bootstrapapi.BootstrapTokenSecretPrefix + id, UID: "1", ResourceVersion: "1"},
		Type:       bootstrapapi.SecretTypeBootstrapToken, Data: map[string][]byte{
			bootstrapapi.BootstrapTokenIDKey: []byte(id), bootstrapapi.BootstrapTokenSecretKey: []byte("secretof" + id),
			bootstrapapi.BootstrapTokenUsageSigningKey: []byte("true"),
		},
	}
	for k, v := range data {
		if s.Data[k] = []byte(v); v == "" {
			delete(s.Data, k)
		}
	}
	return s
}

func at(d time.Duration) map[string]string {
	return map[string]string{bootstrapapi.BootstrapTokenExpirationKey: time.Now().Add(d).UTC().Format(time.RFC3339)}
}

func info(data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespacePublic, Name: bootstrapapi.ConfigMapClusterInfo}, Data: data}
}

// run starts a controller until the test ends, or until stop.
func run(t *testing.T, client *fake.Clientset, build func(*controller.Context) (controller.Runner, error)) (stop func()) {
	t.Helper()
	r, err := build(&controller.Context{Client: client, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	var once bool
	stop = func() {
		if once {
			return
		}
		once = true
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(stop)
	return stop
}

// signedBy are the ids of the tokens whose signature is on the ConfigMap, and good.
func signedBy(t *testing.T, client *fake.Clientset) []string {
	t.Helper()
	cm, err := client.CoreV1().ConfigMaps(metav1.NamespacePublic).Get(t.Context(), bootstrapapi.ConfigMapClusterInfo, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for k, signature := range cm.Data {
		id, ok := strings.CutPrefix(k, bootstrapapi.JWSSignatureKeyPrefix)
		if !ok {
			continue
		}
		if !jws.DetachedTokenIsValid(signature, cm.Data[bootstrapapi.KubeConfigKey], id, "secretof"+id) {
			id = "forged " + id
		}
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// TestSigner: the signatures are those of the tokens that may sign, and no others,
// whatever somebody wrote there.
func TestSigner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		opaque := token("opaque", nil)
		opaque.Type = corev1.SecretTypeOpaque
		elsewhere := token("elsewh", nil)
		elsewhere.Namespace = metav1.NamespaceDefault
		misnamed := token("misnam", nil)
		misnamed.Name = "bootstrap-token-other0"
		short := token("short", nil)
		client := fake.NewClientset(opaque, elsewhere, misnamed, short,
			token("aaaaaa", nil), token("bbbbbb", at(time.Hour)), token("expire", at(-time.Second)), token("notime", map[string]string{bootstrapapi.BootstrapTokenExpirationKey: "tomorrow"}),
			token("unused", map[string]string{bootstrapapi.BootstrapTokenUsageSigningKey: "false"}), token("nokeys", map[string]string{bootstrapapi.BootstrapTokenSecretKey: ""}),
			info(map[string]string{bootstrapapi.KubeConfigKey: "config", "other": "kept", bootstrapapi.JWSSignatureKeyPrefix + "aaaaaa": "forged", bootstrapapi.JWSSignatureKeyPrefix + "gone00": "x"}))
		run(t, client, NewSigner)
		check := func(what string, want ...string) {
			t.Helper()
			time.Sleep(time.Minute)
			if got := signedBy(t, client); !slices.Equal(got, want) {
				t.Errorf("%s: signed by %q, want %q", what, got, want)
			}
		}
		check("at the start", "aaaaaa", "bbbbbb")
		maps1, secrets := client.CoreV1().ConfigMaps(metav1.NamespacePublic), client.CoreV1().Secrets(metav1.NamespaceSystem)
		cm, err := maps1.Get(t.Context(), bootstrapapi.ConfigMapClusterInfo, metav1.GetOptions{})
		if err != nil || cm.Data["other"] != "kept" {
			t.Errorf("%+v, %v", cm, err)
		}
		cm.Data[bootstrapapi.KubeConfigKey] = "another"
		if _, err := maps1.Update(t.Context(), cm, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		check("another content", "aaaaaa", "bbbbbb")
		if _, err := secrets.Create(t.Context(), token("cccccc", nil), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		check("another token", "aaaaaa", "bbbbbb", "cccccc")
		if err := secrets.Delete(t.Context(), "bootstrap-token-aaaaaa", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		check("a token less", "bbbbbb", "cccccc")
		writes := 0
		for _, a := range client.Actions() {
			if a.GetVerb() == "update" && a.GetResource().Resource == "configmaps" {
				writes++
			}
		}
		if writes != 5 { // one of them ours
			t.Errorf("%d writes, want one for each change", writes)
		}
		cm.Data = map[string]string{bootstrapapi.JWSSignatureKeyPrefix + "bbbbbb": "x"}
		if _, err := maps1.Update(t.Context(), cm, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		check("nothing to sign is left alone", "forged bbbbbb")
	})
}

// TestSignerIsKilled: a write that fails, or is not made, is made later.
func TestSignerIsKilled(t *testing.T) {
	for name, err := range map[string]error{
		"refused": errors.New("refused"), "changed": apierrors.NewConflict(corev1.Resource("configmaps"), "cluster-info", errors.New("changed")),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := fake.NewClientset(token("aaaaaa", nil), info(map[string]string{bootstrapapi.KubeConfigKey: "config"}))
				failing := true
				client.PrependReactor("update", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) { return failing, nil, err })
				stop := run(t, client, NewSigner)
				time.Sleep(time.Second)
				if got := signedBy(t, client); len(got) > 0 {
					t.Fatalf("signed by %q", got)
				}
				stop()
				failing = false
				run(t, client, NewSigner)
				time.Sleep(time.Minute)
				if got := signedBy(t, client); !slices.Equal(got, []string{"aaaaaa"}) {
					t.Errorf("signed by %q", got)
				}
			})
		})
	}
}

// TestCleaner: tokens go when they expire, and nothing else does.
func TestCleaner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		opaque := token("opaque", at(-time.Hour))
		opaque.Type = corev1.SecretTypeOpaque
		elsewhere := token("elsewh", at(-time.Hour))
		elsewhere.Namespace = metav1.NamespaceDefault
		client := fake.NewClientset(opaque, elsewhere, token("noends", nil), token("hours1", at(time.Hour)), token("hours2", at(2*time.Hour)),
			token("expire", at(-time.Second)), token("notime", map[string]string{bootstrapapi.BootstrapTokenExpirationKey: "tomorrow"}))
		refused := true
		client.PrependReactor("delete", "secrets", func(a clienttesting.Action) (bool, runtime.Object, error) {
			o := a.(clienttesting.DeleteActionImpl).DeleteOptions.Preconditions
			if o == nil || o.UID == nil || o.ResourceVersion == nil {
				t.Errorf("deletes %s, whatever it is by then", a.(clienttesting.DeleteAction).GetName())
			}
			first := refused
			refused = false
			return first, nil, errors.New("refused")
		})
		stop := run(t, client, NewCleaner)
		check := func(what string, want ...string) {
			t.Helper()
			list, err := client.CoreV1().Secrets("").List(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]bool{}
			for _, s := range list.Items {
				got[strings.TrimPrefix(s.Name, bootstrapapi.BootstrapTokenSecretPrefix)] = true
			}
			if left := slices.Sorted(maps.Keys(got)); !slices.Equal(left, want) {
				t.Errorf("%s: %q are left, want %q", what, left, want)
			}
		}
		time.Sleep(time.Minute)
		check("at the start", "elsewh", "hours1", "hours2", "noends", "opaque")
		// One is given more time, another less.
		secrets := client.CoreV1().Secrets(metav1.NamespaceSystem)
		for id, d := range map[string]time.Duration{"hours1": 3 * time.Hour, "noends": 2 * time.Minute} {
			s := token(id, at(d))
			s.ResourceVersion = "2"
			if _, err := secrets.Update(t.Context(), s, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(90 * time.Minute)
		check("after an hour and a half", "elsewh", "hours1", "hours2", "opaque")
		stop()
		time.Sleep(time.Hour)
		check("it does not run", "elsewh", "hours1", "hours2", "opaque")
		run(t, client, NewCleaner)
		time.Sleep(time.Minute)
		check("it runs again", "elsewh", "hours1", "opaque")
	})
}
