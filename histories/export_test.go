package histories

// WithoutPairs returns a source in memory of the same chunks as s, whose pair
// index has not been built.
func WithoutPairs(s Source) Source {
	m := s.(*memory)
	return &memory{chunks: m.chunks, n: m.n, dense: m.dense, names: m.names}
}
