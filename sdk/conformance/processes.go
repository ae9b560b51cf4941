package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"pintle.dev/pintle/sdk"
	"pintle.dev/pintle/sdk/artifact"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// processes are the checks of what only processes are asked.
var processes = []check{
	{"health", health},
	{"questions of another generation", generations},
	{"all of a decision in one call", evaluate},
	{"controllers, admission, runtimes and proxies", otherKinds},
}

func health(ctx context.Context, s *suite, a artifact.Artifact) error {
	return a.(*artifact.Process).Health(ctx)
}

// generations: a question about another replica than the one that is there is
// refused, not answered from that one.
func generations(ctx context.Context, s *suite, a artifact.Artifact) error {
	if !s.asked() {
		return errSkip{"there is no predicate and no priority"}
	}
	w := s.world(0)
	if err := a.Apply(ctx, w.Whole()); err != nil {
		return err
	}
	client := contractv1.NewSchedulingClient(a.(*artifact.Process).Conn())
	for _, p := range s.plugins {
		var err error
		switch p.GetKind() {
		case sdk.KindPredicate:
			_, err = client.Filter(ctx, &contractv1.FilterRequest{Plugin: p.GetName(), Class: Class, Nodes: w.Nodes(), Generation: 999})
		case sdk.KindPriority:
			_, err = client.Score(ctx, &contractv1.ScoreRequest{Plugin: p.GetName(), Class: Class, Nodes: w.Nodes(), Generation: 999})
		default:
			continue
		}
		if err == nil {
			return fmt.Errorf("%s answers about generation 999, the replica is at %d; refuse with FAILED_PRECONDITION", p.GetName(), w.generation)
		}
		if code := status.Code(err); code != codes.FailedPrecondition {
			return fmt.Errorf("%s about generation 999: %w; refuse with FAILED_PRECONDITION", p.GetName(), err)
		}
	}
	return nil
}

// evaluate: Evaluate says what Filter and Score say, of the nodes that no
// filter before refused.
func evaluate(ctx context.Context, s *suite, a artifact.Artifact) error {
	if !s.asked() {
		return errSkip{"there is no predicate and no priority"}
	}
	p := a.(*artifact.Process)
	for k := range s.Seeds {
		w := s.world(k)
		whole := w.Whole()
		// Not the first cluster of this process: generations go up.
		whole.Generation = uint64(k + 1)
		if err := a.Apply(ctx, whole); err != nil {
			return err
		}
		step := w.Step()
		step.Generation = uint64(k + 2)
		delta, err := proto.Marshal(step)
		if err != nil {
			return err
		}
		req := &contractv1.EvaluateRequest{Deltas: [][]byte{delta}, Generation: step.Generation, Class: Class, Nodes: w.Nodes()}
		for _, d := range s.plugins {
			switch d.GetKind() {
			case sdk.KindPredicate:
				req.Filters = append(req.Filters, &contractv1.Question{Plugin: d.GetName()})
			case sdk.KindPriority:
				req.Scores = append(req.Scores, &contractv1.Question{Plugin: d.GetName()})
			}
		}
		resp, err := p.Evaluate(ctx, req)
		if errors.Is(err, artifact.ErrRefused) && k == 0 {
			return errSkip{"Evaluate is not implemented; the kernel asks one by one"}
		}
		if err != nil {
			return err
		}
		answers, err := s.raw(ctx, a, w.Nodes())
		if err != nil {
			return err
		}
		if err := s.compare(req, resp, answers, w.Nodes()); err != nil {
			return fmt.Errorf("seed %d: %w", s.Seed+uint64(k), err)
		}
	}
	return nil
}

func (s *suite) compare(req *contractv1.EvaluateRequest, resp *contractv1.EvaluateResponse, answers []answer, nodes []uint32) error {
	if len(resp.GetFilters()) != len(req.GetFilters()) || len(resp.GetScores()) != len(req.GetScores()) {
		return fmt.Errorf("evaluate answers %d filters and %d scores of %d and %d", len(resp.GetFilters()), len(resp.GetScores()), len(req.GetFilters()), len(req.GetScores()))
	}
	of := func(name string) answer {
		return answers[slices.IndexFunc(answers, func(a answer) bool { return a.name == name })]
	}
	var narrowing contractv1.Narrowing
	for k, f := range resp.GetFilters() {
		left, name := narrowing.Left(nodes), req.GetFilters()[k].GetPlugin()
		if len(f.GetVerdicts()) != len(left) {
			return fmt.Errorf("evaluate: %s gives %d verdicts for the %d nodes that are left", name, len(f.GetVerdicts()), len(left))
		}
		for n, v := range f.GetVerdicts() {
			var got []string
			if v != 0 {
				if int(v) > len(f.GetReasons()) {
					return fmt.Errorf("evaluate: %s gives verdict %d of %d", name, v, len(f.GetReasons()))
				}
				got = f.GetReasons()[v-1].GetReasons()
			}
			if want := of(name).reasons[left[n]]; !slices.Equal(want, got) {
				return fmt.Errorf("evaluate: %s says %s of node %d, asked alone %s", name, words(got), left[n], words(want))
			}
		}
		narrowing.Refuse(left, f.GetVerdicts())
	}
	left := narrowing.Left(nodes)
	for k, f := range resp.GetScores() {
		name := req.GetScores()[k].GetPlugin()
		if len(f.GetScores()) != len(left) {
			return fmt.Errorf("evaluate: %s gives %d scores for the %d nodes that are left", name, len(f.GetScores()), len(left))
		}
		for n, got := range f.GetScores() {
			if want := of(name).scores[left[n]]; want != got {
				return fmt.Errorf("evaluate: %s scores node %d %d, asked alone %d", name, left[n], got, want)
			}
		}
	}
	return nil
}

// otherKinds: a plugin of the other kinds tells its state before it was
// started, and does not know what it does not hold.
func otherKinds(ctx context.Context, s *suite, a artifact.Artifact) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	conn, found := a.(*artifact.Process).Conn(), false
	none := "no-such-plugin"
	for _, p := range s.plugins {
		switch p.GetKind() {
		case sdk.KindController:
			found = true
			client := contractv1.NewControllersClient(conn)
			st, err := client.Status(ctx, &contractv1.ControllerStatusRequest{})
			if err != nil {
				return fmt.Errorf("%s: status before a start: %w", p.GetName(), err)
			}
			if len(st.GetControllers()) > 0 {
				return fmt.Errorf("%s runs before it was started", st.GetControllers()[0].GetName())
			}
			if _, err := client.Start(ctx, &contractv1.ControllerStart{Socket: "/nonexistent", Controllers: []*contractv1.ControllerSpec{{Name: none, Socket: "/nonexistent"}}}); err == nil {
				return fmt.Errorf("a controller %s, which is not there, is started", none)
			}
		case sdk.KindAdmission:
			found = true
			client := contractv1.NewAdmissionsClient(conn)
			if _, err := client.Review(ctx, &contractv1.ReviewRequest{Plugin: p.GetName(), Request: []byte("no JSON")}); err == nil || broken(err) {
				return fmt.Errorf("%s: about a request that is no JSON: %v; want an error, and the process goes on", p.GetName(), err)
			}
			if _, err := client.Review(ctx, &contractv1.ReviewRequest{Plugin: none, Request: []byte("{}")}); err == nil {
				return fmt.Errorf("an admission plugin %s, which is not there, answers", none)
			}
		case sdk.KindRuntime:
			found = true
			client := contractv1.NewRuntimesClient(conn)
			st, err := client.Status(ctx, &contractv1.RuntimeStatusRequest{Name: p.GetName()})
			if err == nil && st.GetReady() {
				return fmt.Errorf("%s is ready before it was started", p.GetName())
			}
			if broken(err) {
				return fmt.Errorf("%s: status before a start: %w", p.GetName(), err)
			}
			if _, err := client.Start(ctx, &contractv1.RuntimeStart{Name: none}); err == nil {
				return fmt.Errorf("a runtime %s, which is not there, is started", none)
			}
		case sdk.KindProxy:
			found = true
			client := contractv1.NewProxiesClient(conn)
			probed, err := client.Probe(ctx, &contractv1.ProxyProbe{Name: p.GetName()})
			if err != nil {
				return fmt.Errorf("%s: probe: %w; a proxy that cannot run says why in the answer", p.GetName(), err)
			}
			if !probed.GetUsable() && probed.GetReason() == "" {
				return fmt.Errorf("%s cannot run and does not say why", p.GetName())
			}
			if st, err := client.Status(ctx, &contractv1.ProxyStatusRequest{Name: p.GetName()}); broken(err) || st.GetReady() {
				return fmt.Errorf("%s: status before a start: ready %v, %w", p.GetName(), st.GetReady(), err)
			}
			if _, err := client.Start(ctx, &contractv1.ProxyStart{Name: none}); err == nil {
				return fmt.Errorf("a proxy %s, which is not there, is started", none)
			}
		}
	}
	if !found {
		return errSkip{"there is none"}
	}
	// It is still there.
	return a.(*artifact.Process).Health(ctx)
}

// broken tells that a process is gone or hangs from an answer that says no.
func broken(err error) bool {
	c := status.Code(err)
	return c == codes.Unavailable || c == codes.DeadlineExceeded || c == codes.Canceled
}
