export function Logo({ size = 24 }: { readonly size?: number }) {
  return (
    <svg width={size} height={size} viewBox="0 0 32 32" aria-hidden="true">
      <rect width="32" height="32" rx="8" fill="#0f766e" />
      <g fill="none" stroke="#fff" strokeWidth="2.4" strokeLinecap="round" strokeLinejoin="round">
        <circle cx="7.2" cy="16" r="2.6" />
        <circle cx="24.8" cy="16" r="2.6" />
        <path d="M9.8 16h3M19.2 16h3" />
        <path d="M12.2 11.8h7.6v8.4h-7.6z" />
      </g>
    </svg>
  );
}
