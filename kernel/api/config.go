package api

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apiserver/pkg/registry/generic"
	serverstorage "k8s.io/apiserver/pkg/server/storage"

	"pintle.dev/pintle/kernel/api/admission/pluginspec"
	"pintle.dev/pintle/kernel/api/admission/review"
	"pintle.dev/pintle/kernel/api/aggregation"
	"pintle.dev/pintle/kernel/api/audit"
	"pintle.dev/pintle/kernel/api/auth/authentication"
	"pintle.dev/pintle/kernel/api/storage"
	"pintle.dev/pintle/kernel/dualstack"
)

// Config configures a Server. The zero value of a field means its default.
type Config struct {
	// DataDir holds admin.kubeconfig and super-admin.kubeconfig (mode 0600) and
	// pki/. Required.
	DataDir string
	// BindAddress is the IP to listen on; default 127.0.0.1.
	BindAddress string
	// Port is the TCP port; 0 picks a free one.
	Port int
	// AdvertiseAddress is the IP that the kubernetes service's endpoints
	// name; default BindAddress, or if that is unspecified the address of the
	// default route, or loopback where there is none.
	AdvertiseAddress string
	// ServiceCIDR is the range of cluster IPs; default 10.96.0.0/16. Its first
	// address is the kubernetes service's.
	ServiceCIDR string
	// NodePortRange is "first-last"; default 30000-32767.
	NodePortRange string
	// ClusterDomain is the suffix of service names in the serving
	// certificate; default cluster.local.
	ClusterDomain string
	// RouteToEndpoints has the Services of webhooks and other API servers (APIService)
	// resolved to an endpoint, in place of their cluster IP: where no service proxy runs
	// beside.
	RouteToEndpoints bool
	// Backend stores the objects. Required.
	Backend Backend
	// EncryptionConfig is a file of kind EncryptionConfiguration: which
	// resources are encrypted in the backend, and by what. It is read again when
	// it changes. Empty: none are.
	EncryptionConfig string
	// StoreHandler serves what an operator does with the store, below
	// /kernel/store/; may be nil.
	StoreHandler http.Handler
	// InspectHandler answers questions about decisions, below
	// /inspect/v1alpha1/; may be nil.
	InspectHandler http.Handler
	// ConfigzHandler tells what runs, at /configz; may be nil.
	ConfigzHandler http.Handler
	// Flags tells the configuration's keys and values, at /flagz; may be nil.
	Flags func() map[string]string
	// Admission has the plugins that review requests; may be nil.
	Admission review.Source
	// EnableAdmission and DisableAdmission name built-in admission plugins that
	// are, or are not, in the chain, in place of what is by default.
	EnableAdmission, DisableAdmission []string
	// AdmissionConfig is a file of kind AdmissionConfiguration; empty: there is none.
	AdmissionConfig string
	// PodSecurity is a PodSecurityConfiguration; empty: its defaults.
	PodSecurity []byte
	// EventRateLimit is the Configuration of the plugin of that name.
	EventRateLimit []byte
	// Collectors add to what /metrics tells; may be nil.
	Collectors []prometheus.Collector
	// Tracing makes the spans of requests; nil: there are none. The server does not
	// shut it down.
	Tracing trace.TracerProvider
	// Metrics makes of all that /metrics tells what it tells; may be nil.
	Metrics func(prometheus.Gatherer) prometheus.Gatherer
	// Plugins knows what Plugin objects may say; may be nil: anything. PluginHost
	// is the user as whom it writes them itself.
	Plugins pluginspec.Host
	// PluginServers reaches the API servers of plugins; nil: there are none.
	PluginServers aggregation.PluginServers
	PluginHost    string
	// Logger receives the server's messages; default discards.
	Logger *slog.Logger
	// Failing is called when the server fails, before requests under way are
	// cut off; may be nil.
	Failing func()
	// MaxInFlight and MaxMutatingInFlight bound the requests served at the
	// same time; defaults 400 and 200 as upstream's.
	MaxInFlight, MaxMutatingInFlight int
	// NoPriorityAndFairness serves requests in the order in which they come, up
	// to the two bounds, which their sum is shared out by else.
	NoPriorityAndFairness bool
	// MaxTokenExpiration is the longest that a token of a service account lives;
	// 0 is no limit.
	MaxTokenExpiration time.Duration
	// ServiceAccountKeyFiles hold further keys by which tokens of service accounts
	// are verified; they are read again when they change.
	ServiceAccountKeyFiles []string
	// ClusterSigningDuration is the longest that a certificate of a
	// CertificateSigningRequest lives; SignRequests needs one of 10 minutes at least.
	ClusterSigningDuration time.Duration
	// Authentication are the ways in that an operator configures, BootstrapTokens
	// whether bootstrap tokens are among them.
	Authentication  authentication.Files
	BootstrapTokens bool
	// AuthorizationConfig is a file of kind AuthorizationConfiguration; it is read
	// again when it changes. Empty: Node, RBAC.
	AuthorizationConfig string
	// Audit says what is recorded of requests, and where; the zero value nothing.
	Audit audit.Options
	// RuntimeConfig says which versions and resources are served, as kube-apiserver's
	// --runtime-config.
	RuntimeConfig map[string]string
	// Limits bound what one client may hold; the zero value has none.
	Limits Limits
}

// Limits bound what clients on the network may hold at a time; 0 is no limit.
// Administrators (system:masters) have none.
type Limits struct {
	// Connections of the listener, of one user, and of one source address that
	// have not been authenticated.
	Connections, ConnectionsPerUser, ConnectionsPerSource int
	// Watches and streams, of all and of one user.
	Watches, WatchesPerUser int
	// Bodies are the bytes of the bodies of requests that are being served; one
	// user may have a quarter.
	Bodies int64
}

// Backend makes the storages of all resources; *storage.Backend and
// *etcd.Backend do.
type Backend interface {
	// NewFactory gives a storage factory that encodes each resource of scheme as mediaType.
	NewFactory(scheme *runtime.Scheme, codecs runtime.StorageSerializer, mediaType string) *serverstorage.DefaultStorageFactory
	// RESTOptionsGetter and CRDRESTOptionsGetter give the options of built-in and of custom resources.
	RESTOptionsGetter(storage.Factory) generic.RESTOptionsGetter
	CRDRESTOptionsGetter() generic.RESTOptionsGetter
	// ReadyCheck says whether reads and writes are taken; for /readyz.
	ReadyCheck() error
	// Shared reports whether other kernels may write to it too.
	Shared() bool
}

func (c Config) complete() (Config, error) {
	if c.DataDir == "" {
		return c, errors.New("api server: no data directory: set DataDir")
	}
	if c.Backend == nil {
		return c, errors.New("api server: no storage backend: set Backend")
	}
	if c.BindAddress == "" {
		c.BindAddress = "127.0.0.1"
	}
	bind := net.ParseIP(c.BindAddress)
	if bind == nil {
		return c, fmt.Errorf("api server: bind address %q: not an IP address", c.BindAddress)
	}
	if c.Port < 0 || c.Port > 65535 {
		return c, fmt.Errorf("api server: port %d: must be between 0 and 65535", c.Port)
	}
	if c.AdvertiseAddress == "" {
		c.AdvertiseAddress = c.BindAddress
		if bind.IsUnspecified() {
			// A machine without a network still is a cluster for itself.
			c.AdvertiseAddress = "127.0.0.1"
			if ip, err := utilnet.ResolveBindAddress(bind); err == nil {
				c.AdvertiseAddress = ip.String()
			}
		}
	}
	if net.ParseIP(c.AdvertiseAddress) == nil {
		return c, fmt.Errorf("api server: advertise address %q: not an IP address", c.AdvertiseAddress)
	}
	if c.ServiceCIDR == "" {
		c.ServiceCIDR = "10.96.0.0/16"
	}
	services, err := dualstack.Ranges(c.ServiceCIDR)
	if err != nil {
		return c, fmt.Errorf("api server: service CIDR %q: %w", c.ServiceCIDR, err)
	}
	// The service kubernetes leads to this address. One that only listens on loopback is not published.
	if at, err := netip.ParseAddr(c.AdvertiseAddress); err == nil && !at.IsLoopback() && at.Unmap().Is4() != services[0].Addr().Is4() {
		return c, fmt.Errorf("api server: advertise address %s is of another IP family than the first service CIDR, %s; set api.advertiseAddress to one of the machine's of that family, and api.bindAddress so that it is listened at", at, services[0])
	}
	if c.NodePortRange == "" {
		c.NodePortRange = "30000-32767"
	}
	if _, err := utilnet.ParsePortRange(c.NodePortRange); err != nil {
		return c, fmt.Errorf("api server: node port range %q: %w", c.NodePortRange, err)
	}
	if c.ClusterDomain == "" {
		c.ClusterDomain = "cluster.local"
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.MaxInFlight == 0 {
		c.MaxInFlight = 400
	}
	if c.MaxMutatingInFlight == 0 {
		c.MaxMutatingInFlight = 200
	}
	return c, nil
}
