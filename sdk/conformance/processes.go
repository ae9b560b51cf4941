package conformance

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"pintle.dev/pintle/sdk"
	"pintle.dev/pintle/sdk/artifact"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// processes are the checks of what only processes are asked.
var processes = []check{
	{"health", health},
	{"questions of another generation", generations},
	{"controllers, admission, runtimes, networks, proxies, API servers and cloud providers", otherKinds},
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
		case sdk.KindNetwork:
			found = true
			if err := podNetwork(ctx, conn, p.GetName(), none); err != nil {
				return err
			}
		case sdk.KindCloud:
			found = true
			if err := cloudProvider(ctx, conn, p.GetName(), none); err != nil {
				return err
			}
		case sdk.KindAPIServer:
			found = true
			if err := apiServer(ctx, a.(*artifact.Process), p.GetName(), none); err != nil {
				return err
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
