package api

import "k8s.io/apimachinery/pkg/runtime/schema"

// Possible are the resources that the server could serve.
func (s *Server) Possible() []schema.GroupVersionResource { return s.possible }
