package settings

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pintle.dev/pintle/sdk/controller"
)

// mostDescriptors is what connections and requests may be together. A request has a
// connection to its backend, and the process has 4,096 descriptors for all.
const mostDescriptors = 3200

// Settings of the plugin. Addresses are HOST:PORT; an empty host is every address of the
// machine.
type Settings struct {
	// Class is the IngressClass that is made unless there is one; empty: none is made.
	Class string `json:"class"`
	// DefaultClass marks Class as the default when it is made.
	DefaultClass bool `json:"defaultClass"`
	// HTTPAddresses and HTTPSAddresses are listened at.
	HTTPAddresses  []string `json:"httpAddresses"`
	HTTPSAddresses []string `json:"httpsAddresses"`
	// PublishAddresses are written into the status of each Ingress; empty: those of the node.
	PublishAddresses []string `json:"publishAddresses"`
	// TrustedProxies are ranges of proxies in front, whose X-Forwarded-* count.
	TrustedProxies []string `json:"trustedProxies"`
	// RedirectToHTTPS answers requests over HTTP for hosts with a certificate by a redirect.
	RedirectToHTTPS bool `json:"redirectToHTTPS"`

	// SecretInterval is how often the Secrets of certificates are read.
	SecretInterval metav1.Duration `json:"secretInterval"`
	// HeaderTimeout bounds the header of a request, and a TLS handshake.
	HeaderTimeout metav1.Duration `json:"headerTimeout"`
	// ClientTimeout is how long a client may send nothing of a body, or take nothing of an answer.
	ClientTimeout metav1.Duration `json:"clientTimeout"`
	// IdleTimeout is how long a connection of a client may be without a request.
	IdleTimeout metav1.Duration `json:"idleTimeout"`
	// ConnectTimeout bounds a connection to an endpoint; another one is tried then.
	ConnectTimeout metav1.Duration `json:"connectTimeout"`
	// BackendTimeout is how long a backend may take to begin its answer.
	BackendTimeout metav1.Duration `json:"backendTimeout"`

	// MaxConnections of all clients, and of one address.
	MaxConnections          int `json:"maxConnections"`
	MaxConnectionsPerClient int `json:"maxConnectionsPerClient"`
	// MaxRequests under way, and of them those to backends of one namespace. One that was
	// upgraded is under way until its connection ends.
	MaxRequests             int `json:"maxRequests"`
	MaxRequestsPerNamespace int `json:"maxRequestsPerNamespace"`
	// MaxRequestsPerClient are those of one address; of trusted proxies there are more.
	MaxRequestsPerClient int `json:"maxRequestsPerClient"`
	// MaxPathsPerNamespace bounds the paths, and the hosts of certificates, of one namespace.
	MaxPathsPerNamespace int `json:"maxPathsPerNamespace"`
	// MaxHeaderBytes of a request, and of an answer.
	MaxHeaderBytes int `json:"maxHeaderBytes"`
	// MaxBodyBytes of a request; 0: no bound. gRPC streams have none.
	MaxBodyBytes int64 `json:"maxBodyBytes"`
	// DirectForwarding sends requests without a body to backends of HTTP by package direct;
	// without it net/http's Transport sends all.
	DirectForwarding bool `json:"directForwarding"`

	trusted []netip.Prefix
}

// Default are the settings without a configuration.
func Default() Settings {
	second := func(n int) metav1.Duration { return metav1.Duration{Duration: time.Duration(n) * time.Second} }
	return Settings{
		Class: "pintle", HTTPAddresses: []string{":80"}, HTTPSAddresses: []string{":443"},
		SecretInterval: second(10), HeaderTimeout: second(10), ClientTimeout: second(60), IdleTimeout: second(60),
		ConnectTimeout: second(2), BackendTimeout: second(60),
		MaxConnections: 1500, MaxConnectionsPerClient: 256, MaxRequests: 1500, MaxRequestsPerNamespace: 500, MaxRequestsPerClient: 256,
		MaxPathsPerNamespace: 1000, MaxHeaderBytes: 64 << 10, MaxBodyBytes: 1 << 30,
		DirectForwarding: true,
	}
}

// Read makes settings of a configuration. An error names the key.
func Read(data []byte) (Settings, error) {
	s := Default()
	if err := controller.DecodeConfig(data, &s); err != nil {
		return s, err
	}
	fault := func(key, format string, args ...any) error {
		return fmt.Errorf("configuration: "+key+": "+format, args...)
	}
	if s.Class != "" {
		if faults := validation.NameIsDNSSubdomain(s.Class, false); len(faults) > 0 {
			return s, fault("class", "%q: %s", s.Class, faults[0])
		}
	}
	if len(s.HTTPAddresses)+len(s.HTTPSAddresses) == 0 {
		return s, errors.New("configuration: httpAddresses and httpsAddresses: name one address at least")
	}
	seen := map[string]bool{}
	for key, list := range map[string][]string{"httpAddresses": s.HTTPAddresses, "httpsAddresses": s.HTTPSAddresses} {
		for _, a := range list {
			if err := checkAddress(a); err != nil {
				return s, fault(key, "%q: %w", a, err)
			}
			if seen[a] {
				return s, fault(key, "%q is named twice", a)
			}
			seen[a] = true
		}
	}
	for _, a := range s.PublishAddresses {
		if _, err := netip.ParseAddr(a); err != nil {
			return s, fault("publishAddresses", "%q is no IP address", a)
		}
	}
	for _, r := range s.TrustedProxies {
		p, err := netip.ParsePrefix(r)
		if err != nil {
			return s, fault("trustedProxies", "%q is no range such as 192.0.2.0/24", r)
		}
		s.trusted = append(s.trusted, p.Masked())
	}
	return s, s.checkNumbers()
}

func (s *Settings) checkNumbers() error {
	for key, d := range map[string]metav1.Duration{
		"secretInterval": s.SecretInterval, "headerTimeout": s.HeaderTimeout, "clientTimeout": s.ClientTimeout,
		"idleTimeout": s.IdleTimeout, "connectTimeout": s.ConnectTimeout, "backendTimeout": s.BackendTimeout,
	} {
		if d.Duration < 100*time.Millisecond || d.Duration > 24*time.Hour {
			return fmt.Errorf("configuration: %s: %s: want 100ms to 24h", key, d.Duration)
		}
	}
	for key, n := range map[string]int{
		"maxConnections": s.MaxConnections, "maxConnectionsPerClient": s.MaxConnectionsPerClient, "maxRequests": s.MaxRequests,
		"maxRequestsPerNamespace": s.MaxRequestsPerNamespace, "maxRequestsPerClient": s.MaxRequestsPerClient, "maxPathsPerNamespace": s.MaxPathsPerNamespace,
	} {
		if n < 1 {
			return fmt.Errorf("configuration: %s: %d: want 1 at least", key, n)
		}
	}
	if s.MaxConnections+s.MaxRequests > mostDescriptors {
		return fmt.Errorf("configuration: maxConnections and maxRequests: want at most %d together", mostDescriptors)
	}
	if s.MaxHeaderBytes < 4<<10 || s.MaxHeaderBytes > 1<<20 {
		return fmt.Errorf("configuration: maxHeaderBytes: %d: want 4096 to 1048576", s.MaxHeaderBytes)
	}
	if s.MaxBodyBytes < 0 {
		return fmt.Errorf("configuration: maxBodyBytes: %d: want 0 or more", s.MaxBodyBytes)
	}
	return nil
}

// Trusts reports whether the X-Forwarded-* headers of an address count.
func (s *Settings) Trusts(from netip.Addr) bool {
	for _, p := range s.trusted {
		if p.Contains(from) {
			return true
		}
	}
	return false
}

func checkAddress(text string) error {
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		return errors.New("want HOST:PORT or :PORT")
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || strconv.FormatUint(n, 10) != port {
		return errors.New("want a port of 0 to 65535")
	}
	if host == "" {
		return nil
	}
	if _, err := netip.ParseAddr(host); err != nil {
		return errors.New("the host is no IP address")
	}
	return nil
}
