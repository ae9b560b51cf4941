package process

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"pintle.dev/pintle/kernel/plugin/guest"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// Review asks an admission plugin.
func (g *Guest) Review(ctx context.Context, _ int, name string, request []byte, _ time.Duration) ([]byte, error) {
	response, err := contractv1.NewAdmissionsClient(g.conn).Review(ctx, &contractv1.ReviewRequest{Plugin: name, Request: request})
	if err != nil {
		if late(ctx, err) {
			err = errors.New("no answer in time")
		}
		return nil, err
	}
	return response.GetResponse(), nil
}

// late reports whether a question to a process failed for its deadline. The
// process and the connection have clocks of their own, and may notice first.
func late(ctx context.Context, err error) bool {
	deadline, ok := ctx.Deadline()
	return ctx.Err() != nil || status.Code(err) == codes.DeadlineExceeded || ok && !time.Now().Before(deadline)
}

func (g *answers) Until(int) (int64, error) { return g.answeredUntil, nil }

// untilOf takes in what a process said.
func (g *answers) untilOf(until int64) error {
	if until < 0 {
		return g.outOfRange("answers until %d", until)
	}
	g.answeredUntil = until
	return nil
}

func (g *Guest) HeldBy(l guest.Lender) { g.lender = l }
