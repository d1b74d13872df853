package holder

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"
)

// maxBody bounds a declaration: a rule is some 50 bytes, so this is room for 20 000 of them.
const maxBody = 1 << 20

// handler serves the protocol over one backend.
type handler struct {
	mu      sync.Mutex // serialises backend and guards past
	backend Backend
	past    uint64 // packets dropped by rules no longer in force
}

// NewHandler returns the HTTP side of a holder:
//
//	GET /healthz     200 once the holder serves
//	GET /rules       State
//	PUT /rules       []Rule, all that shall be in force; answers with State, read back
//	GET /listening   []uint16, ports that accept TCP connections
//
// Errors are plain text: 400 for a declaration that makes no sense (nothing changed), 500 for
// what the kernel refused (nothing changed either).
func NewHandler(b Backend) http.Handler {
	h := &handler{backend: b}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /rules", h.get)
	mux.HandleFunc("PUT /rules", h.put)
	mux.HandleFunc("GET /listening", h.listening)
	return mux
}

func (h *handler) get(w http.ResponseWriter, _ *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.answerState(w)
}

func (h *handler) put(w http.ResponseWriter, r *http.Request) {
	var rules []Rule
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	d.DisallowUnknownFields()
	if err := d.Decode(&rules); err != nil {
		http.Error(w, "declare rules: "+err.Error(), http.StatusBadRequest)
		return
	}
	rules, err := normalise(rules)
	if err != nil {
		http.Error(w, "declare rules: "+err.Error(), http.StatusBadRequest)
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	before, err := h.backend.Installed()
	if err != nil {
		http.Error(w, "declare rules: read those in force: "+err.Error(), http.StatusInternalServerError)
		return
	}
	if err := h.backend.Apply(rules); err != nil {
		http.Error(w, "declare rules: "+err.Error(), http.StatusInternalServerError)
		return
	}
	h.past += sum(before)
	h.answerState(w)
}

// answerState sends the state as the kernel has it. The caller holds mu.
func (h *handler) answerState(w http.ResponseWriter) {
	installed, err := h.backend.Installed()
	if err != nil {
		http.Error(w, "read rules: "+err.Error(), http.StatusInternalServerError)
		return
	}
	answer(w, State{Rules: installed, Dropped: h.past + sum(installed)})
}

func (h *handler) listening(w http.ResponseWriter, _ *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	ports, err := h.backend.Listening()
	if err != nil {
		http.Error(w, "list ports: "+err.Error(), http.StatusInternalServerError)
		return
	}
	answer(w, ports)
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	// An error here means that the client has gone; it will ask again.
	_ = json.NewEncoder(w).Encode(v)
}

func sum(rules []RuleState) (packets uint64) {
	for _, r := range rules {
		packets += r.Packets
	}
	return packets
}

// normalise checks rules, brings addresses into one form, sorts and removes repetitions, so
// that equal declarations give equal kernel state.
func normalise(rules []Rule) ([]Rule, error) {
	out := make([]Rule, 0, len(rules))
	for _, r := range rules {
		if err := r.Validate(); err != nil {
			return nil, err
		}
		r.Peer = r.Peer.Unmap().WithZone("")
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b Rule) int {
		if a.Direction != b.Direction {
			if a.Direction == In {
				return -1
			}
			return 1
		}
		return a.Peer.Compare(b.Peer)
	})
	return slices.Compact(out), nil
}
