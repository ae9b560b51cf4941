//go:build !wasip1

package sdk

import (
	"context"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// admissionServer serves the Admissions contract over a guest. Unlike the
// scheduling contract's, its calls run side by side: they touch no replica.
type admissionServer struct {
	contractv1.UnimplementedAdmissionsServer

	guest *Guest
}

func (s *admissionServer) Review(_ context.Context, req *contractv1.ReviewRequest) (*contractv1.ReviewResponse, error) {
	response, err := s.guest.Admit(s.guest.Index(req.GetPlugin()), req.GetRequest())
	if err != nil {
		return nil, wireError(err)
	}
	return &contractv1.ReviewResponse{Response: response}, nil
}
