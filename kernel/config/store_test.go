package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestStoreBackend holds what the keys of the store make wrong together, each
// fault at its line, and that the defaults are the embedded store.
func TestStoreBackend(t *testing.T) {
	const head = "apiVersion: config.pintle.dev/v1alpha1\nkind: KernelConfiguration\n"
	tests := []struct {
		name, text string
		want       []string // parts of the one fault; none: valid
	}{
		{"default", "", nil},
		{"etcd", "store: {backend: etcd, etcd: {servers: ['http://127.0.0.1:2379']}}\n", nil},
		{"etcd by TLS", "store: {backend: etcd, etcd: {servers: ['https://a:2379', 'https://b:2379'], certFile: c, keyFile: k, caFile: a, prefix: /other}}\n", nil},
		{"no servers", "store:\n  backend: etcd\n", []string{":4:", "store.etcd.servers: is empty"}},
		{"no servers in group", "store:\n  backend: etcd\n  etcd:\n    prefix: /x\n", []string{":6:", "store.etcd.servers: is empty"}},
		{"unknown", "store:\n  backend: redis\n", []string{":4:", `"redis" is not one of badger, etcd`}},
		{"servers for badger", "store:\n  etcd:\n    servers: [http://a:1]\n", []string{":5:", "store.backend is badger"}},
		{"no scheme", "store:\n  backend: etcd\n  etcd:\n    servers: [127.0.0.1:2379]\n", []string{":6:", `"127.0.0.1:2379" is not the URL of an etcd member`}},
		{"no port", "store:\n  backend: etcd\n  etcd:\n    servers: [http://a]\n", []string{"is not the URL of an etcd member"}},
		{"address to listen on", "store:\n  backend: etcd\n  etcd:\n    servers: [http://0.0.0.0:2379]\n", []string{"is an address to listen on"}},
		{"key without certificate", "store:\n  backend: etcd\n  etcd:\n    servers: [https://a:1]\n    keyFile: k\n", []string{"store.etcd.certFile: is empty while keyFile is set"}},
		{"certificate without key", "store:\n  backend: etcd\n  etcd:\n    servers: [https://a:1]\n    certFile: k\n", []string{"store.etcd.keyFile: is empty while certFile is set"}},
		{"certificates without TLS", "store:\n  backend: etcd\n  etcd:\n    servers: [http://a:1]\n    caFile: k\n", []string{"no server is reached over https"}},
		{"election", "leaderElection:\n  leaseDuration: 5s\n  renewDeadline: 5s\n", []string{":4:", "leaderElection.leaseDuration: 5s is not longer than renewDeadline 5s"}},
		{"election retry", "leaderElection:\n  renewDeadline: 2s\n  retryPeriod: 2s\n", []string{":4:", "2s is not longer than 1.2 times retryPeriod 2s"}},
		{"encrypted directory", "store: {encryptionKeyFile: key, encryptionConfig: file}\n", nil},
		{"encrypted directory on etcd", "store:\n  backend: etcd\n  encryptionKeyFile: key\n  etcd:\n    servers: [http://a:1]\n", []string{":5:", "store.encryptionKeyFile: encrypts the badger store"}},
		{"prefix", "store:\n  backend: etcd\n  etcd:\n    servers: [http://a:1]\n    prefix: registry/\n", []string{":7:", `"registry/" is not a prefix such as /registry`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "c.yaml")
			if err := os.WriteFile(file, []byte(head+tt.text), 0o600); err != nil {
				t.Fatal(err)
			}
			cfg, err := Load(Source{File: file})
			if len(tt.want) == 0 {
				if err != nil {
					t.Fatal(err)
				}
				if tt.text == "" && cfg.Store.Backend != BackendBadger {
					t.Errorf("the default backend is %q", cfg.Store.Backend)
				}
				return
			}
			if err == nil {
				t.Fatal("no fault was found")
			}
			if strings.Count(err.Error(), "\n") > 0 {
				t.Errorf("more than one fault:\n%v", err)
			}
			for _, part := range tt.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("the fault is %q, which lacks %q", err, part)
				}
			}
		})
	}
}
