package api_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	encryptionconfigcontroller "k8s.io/apiserver/pkg/server/options/encryptionconfig/controller"
	"k8s.io/client-go/kubernetes"
	kms "k8s.io/kms/pkg/service"

	"pintle.dev/pintle/e2e/cluster"
	"pintle.dev/pintle/kernel/api"
	"pintle.dev/pintle/kernel/api/etcd"
	"pintle.dev/pintle/kernel/api/storage"
	"pintle.dev/pintle/kernel/bus"
	"pintle.dev/pintle/kernel/store"
)

// A changed file is noticed within this time here, within a minute in use.
func init() {
	encryptionconfigcontroller.EncryptionConfigFileChangePollDuration = 50 * time.Millisecond
}

// keeper is a backend with a look behind it.
type keeper struct {
	backend api.Backend
	// raw is what is stored at a key.
	raw func(key string) []byte
	// files hold it all once stop has returned.
	files string
	stop  func()
}

func keepInBadger(t *testing.T) *keeper {
	t.Helper()
	dir := t.TempDir()
	st, err := store.Open(store.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	b, err := bus.New(bus.Config{}, st)
	if err != nil {
		t.Fatal(err)
	}
	backend, err := storage.NewBackend(st, b, storage.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- st.Run(ctx) }()
	return &keeper{backend: backend, files: dir,
		raw: func(key string) []byte {
			kv, _, err := st.Get(key)
			if err != nil {
				t.Fatal(err)
			}
			return kv.Value
		},
		stop: func() {
			cancel()
			if err := errors.Join(<-done, st.Close()); err != nil {
				t.Error(err)
			}
		},
	}
}

func keepInEtcd(t *testing.T) *keeper {
	t.Helper()
	dir := t.TempDir()
	server, err := cluster.StartEtcd(t.Context(), nil, dir, false)
	if errors.Is(err, cluster.ErrNoEtcd) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	client, err := server.Client()
	if err != nil {
		t.Fatal(err)
	}
	backend, err := etcd.Open(t.Context(), etcd.Config{Servers: []string{server.URL}})
	if err != nil {
		t.Fatal(err)
	}
	return &keeper{backend: backend, files: dir,
		raw: func(key string) []byte {
			out, err := client.Get(context.Background(), key)
			if err != nil || len(out.Kvs) != 1 {
				t.Fatalf("%s: %v, %d values", key, err, len(out.Kvs))
			}
			return out.Kvs[0].Value
		},
		stop: func() {
			if err := errors.Join(backend.Close(), client.Close()); err != nil {
				t.Error(err)
			}
			server.Stop()
		},
	}
}

// holds searches the files for a word.
func (k *keeper) holds(t *testing.T, word string) bool {
	t.Helper()
	found := false
	err := filepath.WalkDir(k.files, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		found = found || bytes.Contains(data, []byte(word))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func runServer(t *testing.T, cfg api.Config) (*kubernetes.Clientset, func()) {
	t.Helper()
	cfg.AdvertiseAddress = "192.0.2.10"
	s, err := api.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- s.Run(ctx) }()
	select {
	case <-s.Ready():
	case err := <-served:
		cancel()
		t.Fatalf("server ended before it was ready: %v", err)
	}
	return kubernetes.NewForConfigOrDie(s.ClientConfig(admin)), func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}
}

// kmsPlugin is a KMS v2 plugin whose keys are numbers: it wraps by adding one's.
type kmsPlugin struct {
	mu  sync.Mutex
	key byte
}

func (p *kmsPlugin) current() byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.key
}

func (p *kmsPlugin) rotate() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.key++
}

func (p *kmsPlugin) Status(context.Context) (*kms.StatusResponse, error) {
	return &kms.StatusResponse{Version: "v2", Healthz: "ok", KeyID: fmt.Sprint(p.current())}, nil
}

func (p *kmsPlugin) Encrypt(_ context.Context, _ string, data []byte) (*kms.EncryptResponse, error) {
	key, out := p.current(), bytes.Clone(data)
	for i := range out {
		out[i] += key
	}
	return &kms.EncryptResponse{Ciphertext: out, KeyID: fmt.Sprint(key)}, nil
}

func (p *kmsPlugin) Decrypt(_ context.Context, _ string, req *kms.DecryptRequest) ([]byte, error) {
	var key byte
	if _, err := fmt.Sscan(req.KeyID, &key); err != nil {
		return nil, err
	}
	out := bytes.Clone(req.Ciphertext)
	for i := range out {
		out[i] -= key
	}
	return out, nil
}

func startKMS(t *testing.T) (*kmsPlugin, string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "kms") // short, as paths of sockets are
	if err != nil {
		t.Fatal(err)
	}
	socket, plugin := filepath.Join(dir, "s"), &kmsPlugin{key: 1}
	server := kms.NewGRPCService(socket, time.Minute, plugin)
	done := make(chan error, 1)
	go func() { done <- server.ListenAndServe() }()
	t.Cleanup(func() {
		server.Close()
		if err := <-done; err != nil {
			t.Error(err)
		}
		os.RemoveAll(dir)
	})
	return plugin, "unix://" + socket
}

// writeEncryption writes an EncryptionConfiguration for secrets and widgets.
func writeEncryption(t *testing.T, file string, providers ...string) {
	t.Helper()
	text := "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n- resources: [secrets]\n  providers:\n"
	for _, p := range providers {
		text += "  - " + p + "\n"
	}
	if err := os.WriteFile(file+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		t.Fatal(err)
	}
}

func keyed(provider string, keys ...string) string {
	var list []string
	for _, k := range keys {
		sum := bytes.Repeat([]byte(k[:1]), 32)
		list = append(list, fmt.Sprintf("{name: %s, secret: %s}", k, base64.StdEncoding.EncodeToString(sum)))
	}
	return provider + ": {keys: [" + strings.Join(list, ", ") + "]}"
}

func word(t *testing.T) string {
	t.Helper()
	b := make([]byte, 24)
	if _, err := rand.Read(b); err != nil {
		t.Fatal(err)
	}
	return hex.EncodeToString(b)
}

// TestEncryptionAtRest: what an EncryptionConfiguration names is not found in
// the files of either backend, a new key is taken up while the server runs, a
// rewrite moves objects to it, and what was written before stays readable.
func TestEncryptionAtRest(t *testing.T) {
	const key = "/registry/secrets/default/s"
	for name, open := range map[string]func(*testing.T) *keeper{"badger": keepInBadger, "etcd": keepInEtcd} {
		for _, provider := range []string{"aescbc", "aesgcm", "secretbox", "kms"} {
			t.Run(name+"/"+provider, func(t *testing.T) {
				t.Parallel()
				k := open(t)
				file := filepath.Join(t.TempDir(), "encryption.yaml")
				first, second := keyed(provider, "alpha"), keyed(provider, "beta", "alpha")
				only := keyed(provider, "beta")
				prefix := func(key string) string { return "k8s:enc:" + provider + ":v1:" + key + ":" }
				var plugin *kmsPlugin
				if provider == "kms" {
					var endpoint string
					plugin, endpoint = startKMS(t)
					name := strings.NewReplacer("/", "-").Replace(t.Name())
					first = "kms: {apiVersion: v2, name: " + name + ", endpoint: '" + endpoint + "', timeout: 1m}"
					prefix = func(string) string { return "k8s:enc:kms:v2:" + name + ":" }
				}
				writeEncryption(t, file, first, "identity: {}")
				data := t.TempDir() // starts of one cluster have one CA
				client, stop := runServer(t, api.Config{DataDir: data, Backend: k.backend, EncryptionConfig: file})
				secret, open := word(t), word(t)
				if _, err := client.CoreV1().Secrets("default").Create(t.Context(), &corev1.Secret{
					ObjectMeta: metav1.ObjectMeta{Name: "s"}, StringData: map[string]string{"v": secret},
				}, metav1.CreateOptions{}); err != nil {
					t.Fatal(err)
				}
				if _, err := client.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{
					ObjectMeta: metav1.ObjectMeta{Name: "c"}, Data: map[string]string{"v": open},
				}, metav1.CreateOptions{}); err != nil {
					t.Fatal(err)
				}
				if got := k.raw(key); !bytes.HasPrefix(got, []byte(prefix("alpha"))) {
					t.Errorf("stored is %.60q", got)
				}
				before := k.raw(key)
				openAs(t, file, key, before, secret)
				// rewrite is what `kubectl get secrets -o json | kubectl replace -f -` does.
				rewrite := func() {
					got, err := client.CoreV1().Secrets("default").Get(t.Context(), "s", metav1.GetOptions{})
					if err == nil {
						_, err = client.CoreV1().Secrets("default").Update(t.Context(), got, metav1.UpdateOptions{})
					}
					if err != nil && !apierrors.IsConflict(err) {
						t.Fatal(err)
					}
				}
				if rewrite(); !bytes.Equal(k.raw(key), before) {
					t.Error("a rewrite under the same key changed what is stored")
				}
				if plugin == nil {
					writeEncryption(t, file, second)
					waitFor(t, func() bool {
						rewrite()
						return bytes.HasPrefix(k.raw(key), []byte(prefix("beta")))
					})
					writeEncryption(t, file, only)
				} else {
					// The plugin's own rotation is noticed within a minute in use.
					plugin.rotate()
				}
				got, err := client.CoreV1().Secrets("default").Get(t.Context(), "s", metav1.GetOptions{})
				if err != nil || string(got.Data["v"]) != secret {
					t.Errorf("after rotation: %v, %v", got, err)
				}
				stop()
				client, stop = runServer(t, api.Config{DataDir: data, Backend: k.backend, EncryptionConfig: file})
				if got, err := client.CoreV1().Secrets("default").Get(t.Context(), "s", metav1.GetOptions{}); err != nil || string(got.Data["v"]) != secret {
					t.Errorf("after a restart: %v, %v", got, err)
				}
				if plugin != nil {
					// A new start asks for a new key, and a rewrite moves to it.
					waitFor(t, func() bool {
						rewrite()
						return !bytes.Equal(k.raw(key), before)
					})
				}
				stop()
				k.stop()
				if k.holds(t, secret) || k.holds(t, base64.StdEncoding.EncodeToString([]byte(secret))) {
					t.Error("the secret is in the files")
				}
				if !k.holds(t, open) {
					t.Error("what is not encrypted is not in the files: the search proves nothing")
				}
			})
		}
	}
}

// TestEncryptionRefused: a file that cannot be used keeps the server from
// starting, with upstream's words and the file's name; a wrong key makes reads
// fail and loses nothing.
func TestEncryptionRefused(t *testing.T) {
	t.Parallel()
	k := keepInBadger(t)
	defer k.stop()
	file := filepath.Join(t.TempDir(), "encryption.yaml")
	for text, want := range map[string]string{
		"aescbc: {keys: [{name: a, secret: c2hvcnQ=}]}": "secret is not of the expected length",
		"identity: {}, secretbox: {}":                   "error while parsing file",
		"unknown: {}":                                   "unknown field",
	} {
		writeEncryption(t, file, text)
		_, err := api.New(api.Config{DataDir: t.TempDir(), Backend: k.backend, EncryptionConfig: file})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), file) {
			t.Errorf("%s: %v; want %q", text, err, want)
		}
	}
	if _, err := api.New(api.Config{DataDir: t.TempDir(), Backend: k.backend, EncryptionConfig: file + "x"}); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("a missing file: %v", err)
	}
	use := func(provider string, do func(c *kubernetes.Clientset)) {
		t.Helper()
		writeEncryption(t, file, provider)
		client, stop := runServer(t, api.Config{DataDir: t.TempDir(), Backend: k.backend, EncryptionConfig: file})
		do(client)
		stop()
	}
	use(keyed("aesgcm", "alpha"), func(c *kubernetes.Clientset) {
		if _, err := c.CoreV1().Secrets("default").Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	})
	for _, other := range []string{file, ""} {
		writeEncryption(t, file, keyed("aesgcm", "beta"))
		_, err := api.New(api.Config{DataDir: t.TempDir(), Backend: k.backend, EncryptionConfig: other})
		want := map[bool]string{true: "no matching key was found for the provided AES transformer", false: "identity transformer tried to read encrypted data"}[other != ""]
		if err == nil || !strings.Contains(err.Error(), "stored secrets cannot be read: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("without the key: %v; want %q", err, want)
		}
	}
	use(keyed("aesgcm", "alpha"), func(c *kubernetes.Clientset) {
		if _, err := c.CoreV1().Secrets("default").Get(t.Context(), "s", metav1.GetOptions{}); err != nil {
			t.Errorf("under its key again: %v", err)
		}
	})
}

// openAs checks that what is stored at key opens by the configuration in file
// to a Secret with the word, and not by one with other keys.
func openAs(t *testing.T, file, key string, stored []byte, word string) {
	t.Helper()
	opener, err := api.NewStoredOpener(t.Context(), file)
	if err != nil {
		t.Fatal(err)
	}
	got, err := opener.Open(t.Context(), key, stored)
	if err != nil {
		t.Fatal(err)
	}
	obj, _, err := must(api.NewStoredDecoder()).Decode(got, nil, nil)
	if secret, ok := obj.(*corev1.Secret); err != nil || !ok || string(secret.Data["v"]) != word {
		t.Errorf("opened to %T, %v", obj, err)
	}
	if plain, err := opener.Open(t.Context(), key, got); err != nil || !bytes.Equal(plain, got) {
		t.Errorf("what is not encrypted: %v", err)
	}
	other := filepath.Join(t.TempDir(), "other.yaml")
	writeEncryption(t, other, keyed("secretbox", "other"))
	opener, err = api.NewStoredOpener(t.Context(), other)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := opener.Open(t.Context(), key, stored); err == nil || !strings.Contains(err.Error(), other) {
		t.Errorf("opened with another's key: %v", err)
	}
}
