package published

import (
	"context"
	"crypto/x509"
	"errors"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
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
	"k8s.io/utils/clock"

	"pintle.dev/pintle/kernel/revocation"
	"pintle.dev/pintle/kernel/revocation/revocationtest"
)

func has(l *revocation.List, serials ...int64) bool {
	for _, n := range serials {
		if !l.Has(big.NewInt(n)) {
			return false
		}
	}
	return len(l.Entries()) == len(serials)
}

func configMap(data string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: Name}, Data: map[string]string{Key: data}}
}

// What is revoked is published, and stays so, whatever becomes of the ConfigMap; without a
// revoked certificate there is none.
func TestPublisher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := revocationtest.New(t, "kubernetes")
		client, guard := fake.NewClientset(), revocation.NewGuard(&revocation.List{})
		failing := false
		client.PrependReactor("*", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
			if failing {
				return true, nil, errors.New("not now")
			}
			return false, nil, nil
		})
		p := Publisher{Client: client.CoreV1(), Guard: guard, CA: a.Cert, Clock: clock.RealClock{}, Logger: slog.New(slog.DiscardHandler), Sign: func(l *revocation.List) ([]byte, error) {
			_, data, err := l.Sign(a.Cert, a.Key, time.Now())
			return data, err
		}}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { p.Keep(ctx); close(done) }()
		defer func() { cancel(); <-done }()
		maps := client.CoreV1().ConfigMaps(Namespace)
		wants := func(when string, after time.Duration, serials ...int64) {
			t.Helper()
			time.Sleep(after)
			synctest.Wait()
			m, err := maps.Get(ctx, Name, metav1.GetOptions{})
			if err != nil {
				t.Fatalf("%s: %v", when, err)
			}
			if l, err := revocation.Parse([]byte(m.Data[Key]), a.Cert); err != nil || !has(l, serials...) {
				t.Errorf("%s: %v, %v, want %v", when, l, err, serials)
			}
		}
		time.Sleep(3 * repairEvery)
		if _, err := maps.Get(ctx, Name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("without a revoked certificate: %v", err)
		}
		one, _ := revocationtest.Sign(t, a, &revocation.List{}, 7)
		guard.Add(one)
		wants("revoked", 2*lookEvery, 7)
		two, _ := revocationtest.Sign(t, a, one, 8)
		guard.Add(two)
		wants("one more", 2*lookEvery, 7, 8)
		for when, change := range map[string]func() error{
			"deleted":   func() error { return maps.Delete(ctx, Name, metav1.DeleteOptions{}) },
			"emptied":   func() error { _, err := maps.Update(ctx, configMap(""), metav1.UpdateOptions{}); return err },
			"of others": func() error { _, err := maps.Update(ctx, configMap("hello"), metav1.UpdateOptions{}); return err },
			"older": func() error {
				_, data := revocationtest.Sign(t, a, &revocation.List{}, 7)
				_, err := maps.Update(ctx, configMap(string(data)), metav1.UpdateOptions{})
				return err
			},
			"forged": func() error {
				_, data := revocationtest.Sign(t, revocationtest.New(t, "kubernetes"), &revocation.List{}, 66)
				_, err := maps.Update(ctx, configMap(string(data)), metav1.UpdateOptions{})
				return err
			},
		} {
			if err := change(); err != nil {
				t.Fatal(err)
			}
			wants(when, 2*repairEvery, 7, 8)
		}
		// Another kernel has revoked one that this one does not know of yet.
		_, data := revocationtest.Sign(t, a, &revocation.List{}, 9)
		if _, err := maps.Update(ctx, configMap(string(data)), metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		wants("of another kernel", 2*repairEvery, 7, 8, 9)
		failing = true
		three, _ := revocationtest.Sign(t, a, two, 10)
		guard.Add(three)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		failing = false
		wants("after a fault", retryAfter, 7, 8, 9, 10)
	})
}

// A machine refuses what the authority has published, keeps it for its next start, and takes
// nothing else for a list, nor anything back.
func TestFollower(t *testing.T) {
	a := revocationtest.New(t, "kubernetes")
	file := filepath.Join(t.TempDir(), "ca.crl")
	log := slog.New(slog.DiscardHandler)
	another := revocationtest.New(t, "another")
	f, err := NewFollower(file, []*x509.Certificate{another.Cert, a.Cert}, log)
	if err != nil {
		t.Fatal(err)
	}
	one, first := revocationtest.Sign(t, a, &revocation.List{}, 7)
	_, second := revocationtest.Sign(t, a, one, 8)
	_, forged := revocationtest.Sign(t, revocationtest.New(t, "kubernetes"), &revocation.List{}, 66)
	_, branch := revocationtest.Sign(t, a, &revocation.List{}, 9)
	client := fake.NewClientset(configMap(string(first)))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx, client) }()
	inForce := func(serials ...int64) {
		t.Helper()
		for limit := time.Now().Add(2 * time.Minute); !has(f.Guard().List(), serials...); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(limit) {
				t.Fatalf("in force are %v, want %v", f.Guard().List().Entries(), serials)
			}
		}
	}
	inForce(7)
	update := func(data []byte) {
		t.Helper()
		if _, err := client.CoreV1().ConfigMaps(Namespace).Update(ctx, configMap(string(data)), metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	update(forged)
	update(nil)
	update(second)
	inForce(7, 8)
	if l := f.Guard().List(); !l.Revoked(a.Leaf(7)) || l.Revoked(another.Leaf(7)) || l.Revoked(a.Leaf(9)) {
		t.Error("beside another authority, other certificates are refused than those that were revoked")
	}
	update(first) // an older one
	update(branch)
	inForce(7, 8, 9)
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	// The next start has what was whole.
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if f, err = NewFollower(file, []*x509.Certificate{a.Cert}, log); err != nil || !has(f.Guard().List(), 7, 8) {
		t.Errorf("after a restart: %v", err)
	}
	if err := os.WriteFile(file, second[:len(second)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := NewFollower(file, []*x509.Certificate{a.Cert}, log); err == nil || !strings.Contains(err.Error(), file) || !strings.Contains(err.Error(), "remove it") {
		t.Errorf("with half a file: %v", err)
	}
	if _, err := NewFollower(file, nil, log); err != nil {
		t.Errorf("without an authority: %v", err)
	}
}

// A machine that may not read the list says so, once, and has it as soon as it may.
func TestFollowerWithoutRight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := revocationtest.New(t, "kubernetes")
		_, data := revocationtest.Sign(t, a, &revocation.List{}, 7)
		client := fake.NewClientset(configMap(string(data)))
		forbidden := true
		client.PrependReactor("list", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
			if forbidden {
				return true, nil, apierrors.NewForbidden(corev1.Resource("configmaps"), "", errors.New("no"))
			}
			return false, nil, nil
		})
		var said strings.Builder
		f, err := NewFollower(filepath.Join(t.TempDir(), "ca.crl"), []*x509.Certificate{a.Cert}, slog.New(slog.NewTextHandler(&said, nil)))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- f.Run(ctx, client) }()
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if n := strings.Count(said.String(), "pintle token create"); n != 1 {
			t.Errorf("said %d times:\n%s", n, said.String())
		}
		forbidden = false
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if !has(f.Guard().List(), 7) {
			t.Error("it has no list")
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
