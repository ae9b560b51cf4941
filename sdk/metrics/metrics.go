//go:build !wasip1

package metrics

import (
	"bytes"
	"context"
	"errors"
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

// registry holds what Register was given.
var (
	registry = prometheus.NewRegistry()
	announce sync.Once
)

// Register adds collectors to what this process tells. Call it from init, or
// before the collectors are used; a name twice is a mistake of the author and
// panics, so that the build's first test shows it.
func Register(collectors ...prometheus.Collector) {
	registry.MustRegister(collectors...)
	announce.Do(func() { sdk.AddService(Service) })
}

// Service serves what was registered, for a bundle that calls transport.Serve.
func Service() transport.Service { return &service{from: registry} }

// service is the process's side of the contract.
type service struct {
	contractv1.UnimplementedMetricsServer
	from prometheus.Gatherer
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
