//go:build !wasip1

package sdk

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// cycleServer serves the Cycle contract over the same guest.
type cycleServer struct {
	contractv1.UnimplementedCycleServer
	*schedulingServer
}

// Run answers a request. What runs beside the scheduling does so without the
// guest: it may take its time.
func (s *cycleServer) Run(ctx context.Context, req *contractv1.CycleRequest) (*contractv1.CycleResponse, error) {
	data, err := proto.Marshal(req)
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	answer, err := s.begin(ctx, data)
	if err != nil {
		return nil, err
	}
	resp := &contractv1.CycleResponse{}
	if err := proto.Unmarshal(answer(), resp); err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	return resp, nil
}

// begin looks up what a request is about and returns what answers it.
func (s *cycleServer) begin(ctx context.Context, data []byte) (func() []byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	call, err := s.guest.cycle(ctx, data)
	if err != nil {
		return nil, wireError(err)
	}
	if call.generation != 0 {
		if err := s.current(call.generation); err != nil {
			return nil, err
		}
	}
	if call.beside() {
		return call.answer, nil
	}
	answer := call.answer()
	return func() []byte { return answer }, nil
}
