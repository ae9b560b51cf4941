//go:build !wasip1

package sdk

import (
	"context"
	"errors"
	"sync"
	"time"

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

var (
	_ transport.Service   = (*schedulingServer)(nil)
	_ transport.Instancer = (*schedulingServer)(nil)
	_ transport.Needy     = (*schedulingServer)(nil)
)

func (s *schedulingServer) RegisterWith(r grpc.ServiceRegistrar) {
	contractv1.RegisterSchedulingServer(r, s)
	contractv1.RegisterCycleServer(r, &cycleServer{schedulingServer: s})
	contractv1.RegisterAdmissionsServer(r, &admissionServer{guest: s.guest})
}

func (s *schedulingServer) Describe() []*contractv1.PluginDescription {
	var list []*contractv1.PluginDescription
	for _, p := range s.guest.Plugins() {
		d := &contractv1.PluginDescription{
			Name: p.Name, Kind: p.Kind, Scope: string(p.Scope), Normalize: string(p.Normalize), MaxScore: p.MaxScore, Reads: p.Reads, Instances: p.Instances,
		}
		d.Hears, d.ByClass, d.Pods = p.Events != nil, p.ByClass, string(p.Pods)
		d.Samples, d.Ranks, d.Expires = p.Samples, p.Ranks, p.Expires
		for k := range p.Events {
			i := &p.Events[k]
			d.Events = append(d.Events, &contractv1.Interest{Kind: i.Kind, Actions: uint32(i.Actions), Hint: i.Helps != nil})
		}
		if a := p.Announced; a != nil {
			d.Phase = a.Phase
			for _, r := range a.Rules {
				d.Rules = append(d.Rules, &contractv1.AdmissionRule{Operations: r.Operations, Resources: r.Resources})
			}
		}
		list = append(list, d)
	}
	return list
}

func (s *schedulingServer) Configure(name string, config []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.guest.Configure(s.guest.Index(name), config)
}

// ConfigureInstance implements transport.Instancer.
func (s *schedulingServer) ConfigureInstance(name, instance string, config []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.guest.Index(instance)
	if i < 0 {
		var err error
		if i, err = s.guest.Instance(s.guest.Index(name), instance); err != nil {
			return err
		}
	}
	return s.guest.Configure(i, config)
}

// Needs implements transport.Needy.
func (s *schedulingServer) Needs() uint32 { return s.guest.Contract(0, 0) }

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
	verdicts, reasons, err := s.filter(req.GetPlugin(), req.GetClass(), req.GetNodes())
	if err != nil {
		return nil, wireError(err)
	}
	return &contractv1.FilterResponse{Verdicts: verdicts, Reasons: reasons, UntilUnixMilli: s.until(req.GetPlugin())}, nil
}

// filter asks one predicate; its verdicts count the reasons returned, from 1.
func (s *schedulingServer) filter(plugin string, class uint32, nodes []uint32) (verdicts []uint32, reasons []*contractv1.ReasonSet, err error) {
	i := s.guest.Index(plugin)
	verdicts = make([]uint32, len(nodes))
	if err := s.guest.Filter(i, class, nodes, verdicts); err != nil {
		return nil, nil, err
	}
	var local map[uint32]uint32
	for k, id := range verdicts {
		if id == 0 {
			continue
		}
		n, ok := local[id]
		if !ok {
			if local == nil {
				local = map[uint32]uint32{}
			}
			reasons = append(reasons, &contractv1.ReasonSet{Reasons: s.guest.Reasons(i, id), Unresolvable: s.guest.Unresolvable(i, id)})
			n = uint32(len(reasons))
			local[id] = n
		}
		verdicts[k] = n
	}
	return verdicts, reasons, nil
}

func (s *schedulingServer) Score(_ context.Context, req *contractv1.ScoreRequest) (*contractv1.ScoreResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.current(req.GetGeneration()); err != nil {
		return nil, err
	}
	scores, err := s.score(req.GetPlugin(), req.GetClass(), req.GetNodes())
	if err != nil {
		return nil, wireError(err)
	}
	return &contractv1.ScoreResponse{Scores: scores, UntilUnixMilli: s.until(req.GetPlugin())}, nil
}

func (s *schedulingServer) score(plugin string, class uint32, nodes []uint32) ([]int64, error) {
	scores := make([]int64, len(nodes))
	if err := s.guest.Score(s.guest.Index(plugin), class, nodes, scores); err != nil {
		return nil, err
	}
	return scores, nil
}

// until is when the last answers of a plugin end.
func (s *schedulingServer) until(plugin string) int64 {
	until, _ := s.guest.Until(s.guest.Index(plugin)) // it answered
	return until
}

// Evaluate stops at the first question that fails: asked alone, it says why.
func (s *schedulingServer) Evaluate(_ context.Context, req *contractv1.EvaluateRequest) (*contractv1.EvaluateResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, delta := range req.GetDeltas() {
		if err := s.guest.Apply(delta); err != nil {
			return nil, wireError(err)
		}
	}
	if err := s.current(req.GetGeneration()); err != nil {
		return nil, err
	}
	resp := &contractv1.EvaluateResponse{Generation: s.guest.cluster.Generation}
	var narrowing contractv1.Narrowing
	nodesOf := func(q *contractv1.Question) []uint32 {
		if nodes := q.GetNodes(); len(nodes) > 0 {
			return narrowing.Left(nodes)
		}
		return narrowing.Left(req.GetNodes())
	}
	for _, q := range req.GetFilters() {
		nodes, began := nodesOf(q), time.Now()
		verdicts, reasons, err := s.filter(q.GetPlugin(), req.GetClass(), nodes)
		if err != nil {
			return resp, nil
		}
		narrowing.Refuse(nodes, verdicts)
		resp.Filters = append(resp.Filters, &contractv1.FilterAnswer{
			Verdicts: verdicts, Reasons: reasons, Nanoseconds: uint64(time.Since(began)), UntilUnixMilli: s.until(q.GetPlugin()),
		})
	}
	for _, q := range req.GetScores() {
		nodes, began := nodesOf(q), time.Now()
		scores, err := s.score(q.GetPlugin(), req.GetClass(), nodes)
		if err != nil {
			return resp, nil
		}
		resp.Scores = append(resp.Scores, &contractv1.ScoreAnswer{Scores: scores, Nanoseconds: uint64(time.Since(began)), UntilUnixMilli: s.until(q.GetPlugin())})
	}
	return resp, nil
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
