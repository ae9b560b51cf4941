package config

import (
	"net"
	"net/url"
	"path"
	"strings"
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
