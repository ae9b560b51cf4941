//go:build !wasip1

package sdk

import (
	"context"
	"errors"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"
	"pintle.dev/pintle/sdk/transport"
)

// Service serves a guest over gRPC; a bundle that holds other kinds as well
// passes it to transport.Serve together with theirs.
func Service(g *Guest) transport.Service { return &schedulingServer{guest: g} }

// schedulingServer serves the Scheduling contract over a guest. gRPC calls
// arrive on goroutines of their own; the guest takes one at a time.
type schedulingServer struct {
	contractv1.UnimplementedSchedulingServer

	mu    sync.Mutex
	guest *Guest
}

var _ transport.Service = (*schedulingServer)(nil)

func (s *schedulingServer) RegisterWith(r grpc.ServiceRegistrar) {
	contractv1.RegisterSchedulingServer(r, s)
}

func (s *schedulingServer) Describe() []*contractv1.PluginDescription {
	var list []*contractv1.PluginDescription
	for _, p := range s.guest.Plugins() {
		list = append(list, &contractv1.PluginDescription{
			Name: p.Name, Kind: p.Kind, Scope: string(p.Scope), Normalize: string(p.Normalize), Reads: p.Reads,
		})
	}
	return list
}

func (s *schedulingServer) Configure(name string, config []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.guest.Configure(s.guest.Index(name), config)
}

func (s *schedulingServer) Health() error              { return nil }
func (s *schedulingServer) Stop(context.Context) error { return nil }

func (s *schedulingServer) Apply(_ context.Context, req *contractv1.ApplyRequest) (*contractv1.ApplyResponse, error) {
	data, err := proto.Marshal(req.GetDelta())
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.guest.Apply(data); err != nil {
		return nil, wireError(err)
	}
	return &contractv1.ApplyResponse{Generation: s.guest.cluster.Generation}, nil
}

func (s *schedulingServer) Filter(_ context.Context, req *contractv1.FilterRequest) (*contractv1.FilterResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.current(req.GetGeneration()); err != nil {
		return nil, err
	}
	i := s.guest.Index(req.GetPlugin())
	out := make([]uint32, len(req.GetNodes()))
	if err := s.guest.Filter(i, req.GetClass(), req.GetNodes(), out); err != nil {
		return nil, wireError(err)
	}
	// The response carries its own table of reasons, numbered from 1.
	resp := &contractv1.FilterResponse{Verdicts: out}
	local := map[uint32]uint32{}
	for k, id := range out {
		if id == 0 {
			continue
		}
		n, ok := local[id]
		if !ok {
			resp.Reasons = append(resp.Reasons, &contractv1.ReasonSet{Reasons: s.guest.Reasons(i, id)})
			n = uint32(len(resp.Reasons))
			local[id] = n
		}
		out[k] = n
	}
	return resp, nil
}

func (s *schedulingServer) Score(_ context.Context, req *contractv1.ScoreRequest) (*contractv1.ScoreResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.current(req.GetGeneration()); err != nil {
		return nil, err
	}
	out := make([]int64, len(req.GetNodes()))
	if err := s.guest.Score(s.guest.Index(req.GetPlugin()), req.GetClass(), req.GetNodes(), out); err != nil {
		return nil, wireError(err)
	}
	return &contractv1.ScoreResponse{Scores: out}, nil
}

func (s *schedulingServer) Normalize(_ context.Context, req *contractv1.NormalizeRequest) (*contractv1.ScoreResponse, error) {
	if len(req.GetNodes()) != len(req.GetScores()) {
		return nil, status.Error(codes.InvalidArgument, "nodes and scores differ in length")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.guest.Normalize(s.guest.Index(req.GetPlugin()), req.GetClass(), req.GetNodes(), req.GetScores()); err != nil {
		return nil, wireError(err)
	}
	return &contractv1.ScoreResponse{Scores: req.GetScores()}, nil
}

// current refuses a question about another replica than the one that is here.
func (s *schedulingServer) current(generation uint64) error {
	if generation != s.guest.cluster.Generation {
		return status.Errorf(codes.FailedPrecondition, "replica is at generation %d, asked about %d", s.guest.cluster.Generation, generation)
	}
	return nil
}

func wireError(err error) error {
	switch {
	case errors.Is(err, ErrPlugin), errors.Is(err, ErrClass), errors.Is(err, ErrNode):
		return status.Error(codes.NotFound, err.Error())
	case errors.Is(err, ErrDelta):
		return status.Error(codes.InvalidArgument, err.Error())
	}
	return status.Error(codes.Internal, err.Error())
}
