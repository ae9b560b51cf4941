//go:build !wasip1

package metrics

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"pintle.dev/pintle/sdk"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
	"pintle.dev/pintle/sdk/transport"
)

// MaxBytes bounds what one process may tell.
const MaxBytes = 1 << 20

// registry holds what Register was given, others what RegisterGatherer was.
var (
	registry = prometheus.NewRegistry()
	othersMu sync.Mutex
	others   []other
	announce sync.Once
)

// other is a registry of a library, of which some families are told.
type other struct {
	from     prometheus.Gatherer
	prefixes []string
}

// Register adds collectors to what this process tells. Call it from init, or
// before the collectors are used; a name twice is a mistake of the author and
// panics, so that the build's first test shows it.
func Register(collectors ...prometheus.Collector) {
	registry.MustRegister(collectors...)
	announce.Do(func() { sdk.AddService(Service) })
}

// RegisterGatherer adds the families of a library's own registry whose names begin with
// one of the prefixes. Call it before Service.
func RegisterGatherer(from prometheus.Gatherer, prefixes ...string) {
	othersMu.Lock()
	others = append(others, other{from, prefixes})
	othersMu.Unlock()
	announce.Do(func() { sdk.AddService(Service) })
}

// Service serves what was registered, for a bundle that calls transport.Serve.
func Service() transport.Service {
	othersMu.Lock()
	defer othersMu.Unlock()
	return &service{from: registry, others: slices.Clone(others)}
}

// service is the process's side of the contract.
type service struct {
	contractv1.UnimplementedMetricsServer
	from   prometheus.Gatherer
	others []other
}

var _ transport.Service = (*service)(nil)

func (s *service) RegisterWith(r grpc.ServiceRegistrar)      { contractv1.RegisterMetricsServer(r, s) }
func (s *service) Describe() []*contractv1.PluginDescription { return nil }
func (s *service) Configure(string, []byte) error            { return errors.New("metrics have no configuration") }
func (s *service) Health() error                             { return nil }
func (s *service) Stop(context.Context) error                { return nil }

// Gather answers with all that can be gathered; a collector that fails keeps
// nobody from the others.
func (s *service) Gather(context.Context, *contractv1.MetricsRequest) (*contractv1.MetricsResponse, error) {
	families, failure := s.from.Gather()
	for _, o := range s.others {
		found, err := o.from.Gather()
		failure = errors.Join(failure, err)
		for _, f := range found {
			if slices.ContainsFunc(o.prefixes, func(p string) bool { return strings.HasPrefix(f.GetName(), p) }) {
				families = append(families, f)
			}
		}
	}
	if len(families) == 0 && failure != nil {
		return nil, status.Error(codes.Internal, failure.Error())
	}
	var out bytes.Buffer
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(&out, f); err != nil {
			return nil, status.Errorf(codes.Internal, "%s: %v", f.GetName(), err)
		}
		if out.Len() > MaxBytes {
			return nil, status.Errorf(codes.ResourceExhausted, "there is more to tell than %d bytes: use fewer labels, or fewer values of them", MaxBytes)
		}
	}
	return &contractv1.MetricsResponse{Exposition: out.Bytes()}, nil
}
