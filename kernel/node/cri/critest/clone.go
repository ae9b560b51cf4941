package critest

import "google.golang.org/protobuf/proto"

// clone copies a message, because gRPC encodes it after the lock is released.
func clone[M proto.Message](m M) M { return proto.Clone(m).(M) }
