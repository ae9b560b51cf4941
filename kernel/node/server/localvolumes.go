package server

import (
	"context"
	"errors"
	"net/http"
	"time"

	"pintle.dev/pintle/kernel/node/localvolume"
)

// removeTime is how long one request may work on a removal; the next one goes on.
const removeTime = 20 * time.Second

// removeLocalVolume deletes a volume that the node gave to a claim (sdk/localvolumes). The gate asks for the
// right delete on nodes/proxy. What can be removed is a volume by name, and nothing else of the machine.
func (s *Server) removeLocalVolume(w http.ResponseWriter, r *http.Request) {
	if s.deps.RemoveLocalVolume == nil {
		http.Error(w, "this node has no local volumes", http.StatusNotFound)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), removeTime)
	defer cancel()
	name := r.PathValue("name")
	err := s.deps.RemoveLocalVolume(ctx, name)
	var bad *localvolume.NameError
	var used *localvolume.InUseError
	switch {
	case err == nil:
		s.deps.Logger.InfoContext(ctx, "local volume removed", "volume", name)
		w.WriteHeader(http.StatusNoContent)
	case errors.Is(err, localvolume.ErrGoesOn):
		w.WriteHeader(http.StatusAccepted)
	case errors.As(err, &bad):
		http.Error(w, err.Error(), http.StatusBadRequest)
	case errors.As(err, &used):
		http.Error(w, err.Error(), http.StatusConflict)
	default:
		s.deps.Logger.ErrorContext(ctx, "local volume is not removed", "volume", name, "error", err)
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}
