package certificates

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"pintle.dev/pintle/plugins/ingress/routes"
)

func pair(t *testing.T, host string) (certificate, key []byte) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{host}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &k.PublicKey, k)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})
}

// TestSecrets: a Secret is read at once and again; what it becomes is in use, and a fault
// leaves what was before. Secrets are got by name alone, and only those that are wanted.
func TestSecrets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, oneKey := pair(t, "one.test")
		two, twoKey := pair(t, "two.test")
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "tls"}, Data: map[string][]byte{"tls.crt": one, "tls.key": oneKey}}
		client := fake.NewClientset(secret, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "other"}})
		changes := 0
		s := New(client, 10*time.Second, func() { changes++ })
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- s.Run(ctx) }()
		name, none := routes.SecretName{Namespace: "shop", Name: "tls"}, routes.SecretName{Namespace: "shop", Name: "none"}
		has := func(want string, fault error) {
			t.Helper()
			synctest.Wait()
			c, err := s.Get(name)
			got := ""
			if c != nil {
				got = c.Leaf.DNSNames[0]
			}
			if got != want || (fault == nil) != (err == nil) || fault != nil && !errors.Is(err, fault) {
				t.Errorf("it has %q, %v; want %q, %v", got, err, want, fault)
			}
		}
		has("", nil)
		s.Want(map[routes.SecretName]bool{name: true, none: true})
		has("one.test", nil)
		if _, err := s.Get(none); !errors.Is(err, ErrMissing) {
			t.Errorf("one that is missing: %v", err)
		}
		if changes != 1 {
			t.Errorf("%d changes", changes)
		}
		put := func(certificate, key []byte) {
			t.Helper()
			next := secret.DeepCopy()
			next.Data = map[string][]byte{"tls.crt": certificate, "tls.key": key}
			if _, err := client.CoreV1().Secrets("shop").Update(ctx, next, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Second) // of the bubble's clock
		}
		put(two, twoKey)
		has("two.test", nil)
		for _, c := range []struct{ certificate, key []byte }{{one, twoKey}, {nil, nil}, {[]byte("rubbish"), twoKey}, {[]byte(strings.Repeat("x", maxBytes+1)), twoKey}} {
			put(c.certificate, c.key)
			has("two.test", ErrInvalid)
		}
		before := changes
		time.Sleep(time.Minute)
		if synctest.Wait(); changes != before {
			t.Error("the same fault is a change each time")
		}
		put(one, oneKey)
		has("one.test", nil)
		if err := client.CoreV1().Secrets("shop").Delete(ctx, "tls", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		has("", ErrMissing)
		s.Want(nil)
		has("", nil)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		for _, a := range client.Actions() {
			if a.GetVerb() == "list" || a.GetVerb() == "watch" {
				t.Errorf("it does %v", a)
			}
			if get, ok := a.(interface{ GetName() string }); ok && a.GetVerb() == "get" && get.GetName() == "other" {
				t.Error("a Secret that nobody names is read")
			}
		}
	})
}

func TestOwn(t *testing.T) {
	c, err := Own(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if leaf, err := x509.ParseCertificate(c.Certificate[0]); err != nil || leaf.Subject.CommonName != "Pintle Ingress" || leaf.IsCA {
		t.Errorf("%+v, %v", leaf, err)
	}
}
