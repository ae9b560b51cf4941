package config

import (
	"net"
	"net/url"
	"path"
	"strings"
	"time"
)

// The words for store.backend.
const (
	BackendBadger = "badger"
	BackendEtcd   = "etcd"
)

// checkStore finds what the keys of the store together make wrong.
func checkStore(cfg *Config, fault func(key, format string, args ...any)) {
	e := cfg.Store.Etcd
	if cfg.Store.Backend != BackendEtcd {
		if len(e.Servers) > 0 {
			fault("store.etcd.servers", "etcd servers are named, but store.backend is %s; set it to etcd, or remove them", cfg.Store.Backend)
		}
		return
	}
	if cfg.Store.EncryptionKey != "" {
		fault("store.encryptionKeyFile", "encrypts the badger store, but store.backend is etcd; remove it, and name what is to be encrypted in store.encryptionConfig")
	}
	if len(e.Servers) == 0 {
		fault("store.etcd.servers", "is empty; name the etcd members, such as [https://10.0.0.5:2379]")
	}
	secure := false
	for _, server := range e.Servers {
		u, err := url.Parse(server)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Port() == "" || u.Hostname() == "" || strings.Trim(u.Path, "/") != "" || u.User != nil {
			fault("store.etcd.servers", "%q is not the URL of an etcd member such as https://10.0.0.5:2379", server)
			continue
		}
		secure = secure || u.Scheme == "https"
		if ip := net.ParseIP(u.Hostname()); ip != nil && ip.IsUnspecified() {
			fault("store.etcd.servers", "%q is an address to listen on; name the one that etcd is reached at", server)
		}
	}
	switch {
	case e.CertFile != "" && e.KeyFile == "":
		fault("store.etcd.keyFile", "is empty while certFile is set; name the key of that certificate")
	case e.KeyFile != "" && e.CertFile == "":
		fault("store.etcd.certFile", "is empty while keyFile is set; name the certificate of that key")
	}
	if len(e.Servers) > 0 && !secure && (e.CertFile != "" || e.CAFile != "") {
		fault("store.etcd.servers", "certificates are set, but no server is reached over https")
	}
	if !strings.HasPrefix(e.Prefix, "/") || path.Clean(e.Prefix) != e.Prefix || e.Prefix == "/" {
		fault("store.etcd.prefix", "%q is not a prefix such as /registry: a slash and a name", e.Prefix)
	}
}

// electionJitter is the most that a wait between two tries is drawn out by.
const electionJitter = 1.2

// checkElection holds what client-go's leader election demands.
func checkElection(cfg *Config, fault func(key, format string, args ...any)) {
	e := cfg.Election
	if e.LeaseDuration <= e.RenewDeadline {
		fault("leaderElection.leaseDuration", "%s is not longer than renewDeadline %s; a leader has to stop before another takes over", e.LeaseDuration, e.RenewDeadline)
	}
	if e.RenewDeadline <= time.Duration(electionJitter*float64(e.RetryPeriod)) {
		fault("leaderElection.renewDeadline", "%s is not longer than %g times retryPeriod %s", e.RenewDeadline, electionJitter, e.RetryPeriod)
	}
}
